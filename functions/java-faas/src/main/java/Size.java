/** How large a problem is: the member "n" of the call's arguments, which come on standard input. */
final class Size {
    private Size() {
    }

    static int of(int otherwise) {
        String json = Stdin.readAll();
        int at = json.indexOf("\"n\"");
        if (at < 0) {
            return otherwise;
        }
        at = json.indexOf(':', at) + 1;
        while (at < json.length() && json.charAt(at) == ' ') {
            at++;
        }
        int to = at;
        while (to < json.length() && json.charAt(to) >= '0' && json.charAt(to) <= '9') {
            to++;
        }
        // Six digits are more than any of the programs finishes.
        return to > at && to - at <= 6 ? Integer.parseInt(json.substring(at, to)) : otherwise;
    }
}
