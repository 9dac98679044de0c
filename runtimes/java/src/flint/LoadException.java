package flint;

/** The code is missing or has no entry; the message is for the developer. */
final class LoadException extends Exception {
    LoadException(String message) {
        super(message);
    }
}
