import java.net.URI;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.postgresql.Driver;

/** A login: the user's row by name, and whether the password is the right one. Connections are kept, as many as calls ran at once. */
public class RestApi {
    private static final Queue<Connection> IDLE = new ConcurrentLinkedQueue<>();

    public static Map<String, Object> main(Map<String, Object> params) throws SQLException {
        long started = System.nanoTime();
        Connection connection = IDLE.poll();
        if (connection == null) {
            connection = connect();
        }
        boolean succeeded;
        try {
            succeeded = isRight(connection, (String) params.get("username"), (String) params.get("password"));
        } catch (SQLException error) {
            connection.close();
            throw error;
        }
        IDLE.add(connection);
        return Map.of("succeeded", String.valueOf(succeeded), "time", (System.nanoTime() - started) / 1e6);
    }

    private static boolean isRight(Connection connection, String username, String password) throws SQLException {
        try (PreparedStatement query = connection.prepareStatement("SELECT password FROM users WHERE username = ?")) {
            query.setString(1, username);
            try (ResultSet rows = query.executeQuery()) {
                return rows.next() && rows.getString(1).equals(password);
            }
        }
    }

    private static Connection connect() throws SQLException {
        URI place = URI.create(System.getenv("POSTGRES_URL"));
        String[] account = place.getUserInfo().split(":", 2);
        Properties login = new Properties();
        login.setProperty("user", account[0]);
        login.setProperty("password", account[1]);
        return new Driver().connect("jdbc:postgresql://" + place.getHost() + ":" + place.getPort() + place.getPath(), login);
    }
}
