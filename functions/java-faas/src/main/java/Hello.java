/** The least that a call can cost. */
public final class Hello {
    private Hello() {
    }

    public static void main(String[] args) {
        System.out.println("hello, world!");
    }
}
