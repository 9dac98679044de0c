package flint;

/** The code is missing or has no entry point; the message is for the developer. */
final class LoadException extends Exception {
    LoadException(String message) {
        super(message);
    }
}
