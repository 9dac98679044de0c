import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;

/** One of the programs in a JVM that stays: a request's body is its standard input, its standard output the answer. One call at a time. */
public final class Server {
    private Server() {
    }

    public static void main(String[] args) throws Exception {
        Method program = Class.forName(args[0]).getMethod("main", String[].class);
        int port = Integer.parseInt(System.getenv("PORT"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            int status = 200;
            System.setIn(new ByteArrayInputStream(exchange.getRequestBody().readAllBytes()));
            PrintStream printed = new PrintStream(out);
            PrintStream before = System.out;
            System.setOut(printed);
            try {
                program.invoke(null, (Object) new String[0]);
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
                status = 500;
            } finally {
                printed.flush();
                System.setOut(before);
            }
            exchange.sendResponseHeaders(status, out.size() == 0 ? -1 : out.size());
            out.writeTo(exchange.getResponseBody());
            exchange.close();
        });
        server.start();
    }
}
