package flint;

/** The peer broke the link protocol. */
final class ProtocolException extends Exception {
    /** The class of the violation: length, kind, reserved, truncated, json or order. */
    final String code;

    ProtocolException(String code, String message) {
        super(message);
        this.code = code;
    }
}
