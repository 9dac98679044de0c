'use strict';
// One call in progress, from its first frame to the end of its response.

const { Kind, ProtocolError } = require('./frame');

const { setTimeout } = globalThis; // user code may replace it
const ACK_EVERY = 256 * 1024;
/** Flint waits for 500 ms. */
const CLOSED_WITHIN_MS = 100;

/** A call in progress: its request body as it arrives, and the flow control of its response. */
class Call {
  constructor(id, head) {
    this.id = id;
    this.head = head;
    this.pieces = [];
    this.unreported = 0;
    /** The request body is complete and the handler runs. */
    this.running = false;
    /** The caller is gone: no more of the response body is sent. */
    this.cancelled = false;
    this.unacknowledged = 0;
    this.wake = null;
    this.onCancelled = null;
  }

  /** Stores a piece of the request body and acknowledges what has arrived from time to time. */
  receive(link, piece) {
    this.pieces.push(piece);
    this.unreported += piece.length;
    if (this.unreported >= ACK_EVERY) {
      const count = Buffer.allocUnsafe(4);
      count.writeUInt32BE(this.unreported, 0);
      this.unreported = 0;
      link.send(Kind.ACK, false, this.id, count);
    }
  }

  takeBody() {
    const body = this.pieces.length === 1 ? this.pieces[0] : Buffer.concat(this.pieces);
    this.pieces = [];
    return body;
  }

  onAck(count) {
    if (count > this.unacknowledged) throw new ProtocolError('order', 'more bytes were acknowledged than sent');
    this.unacknowledged -= count;
    this.wakeUp();
  }

  cancel() {
    this.cancelled = true;
    this.wakeUp();
    if (this.onCancelled !== null) this.onCancelled();
  }

  /**
   * Settles with `streaming`, or soon after the caller has gone: by then an iterator with a piece ready has been closed, while another's
   * next piece may be long in coming.
   */
  whileWanted(streaming) {
    const gone = new Promise((resolve) => {
      const soon = () => setTimeout(resolve, CLOSED_WITHIN_MS);
      if (this.cancelled) soon();
      else this.onCancelled = soon;
    });
    return Promise.race([streaming, gone]);
  }

  wakeUp() {
    const wake = this.wake;
    this.wake = null;
    if (wake !== null) wake();
  }

  /** Resolves at the next acknowledgement or cancellation. */
  acknowledged() {
    return new Promise((resolve) => { this.wake = resolve; });
  }
}

module.exports = { Call };
