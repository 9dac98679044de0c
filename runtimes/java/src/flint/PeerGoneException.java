package flint;

/** Flint has closed the link. */
final class PeerGoneException extends Exception {
    PeerGoneException() {
        super(null, null, false, false);
    }
}
