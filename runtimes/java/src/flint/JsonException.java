package flint;

/** Text that is not JSON, or a value that JSON cannot express. */
final class JsonException extends Exception {
    JsonException(String message) {
        super(message);
    }
}
