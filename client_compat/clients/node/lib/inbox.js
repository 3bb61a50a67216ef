/**
 * Turns a client that pushes records into one that is polled.
 *
 * The client's handler offers a record and waits until a poll has room for it, so that nothing is taken from the client before the runner asked for
 * it, and what the client counts as consumed is what a poll has answered. Handlers may offer at the same time (one for each partition).
 */
export class Inbox {
  #room = 0;
  #records = [];
  #failure = null;
  #waiters = new Set();

  /** Takes records until there are `count` of them or the time is over. Throws what `fail` was given. */
  async poll(count, timeoutMs) {
    const deadline = performance.now() + timeoutMs;
    this.#room = count - this.#records.length;
    this.#wake();
    while (this.#records.length < count && this.#failure === null) {
      const left = deadline - performance.now();
      if (left <= 0) break;
      await this.change(left);
    }
    this.#room = 0;
    const taken = this.#records;
    this.#records = [];
    if (taken.length === 0 && this.#failure !== null) {
      const failure = this.#failure;
      this.#failure = null;
      throw failure;
    }
    return taken;
  }

  get hasRoom() {
    return this.#room > 0;
  }

  /** Hands a record to the poll that has room for it; to be called right after `hasRoom` said so. */
  put(record) {
    this.#room -= 1;
    this.#records.push(record);
    if (this.#room <= 0) this.#wake();
  }

  /** The client gave up: the next poll that has no records throws this. */
  fail(error) {
    this.#failure = error;
    this.#wake();
  }

  /** Waits for the next change, at most that long: room for a record, a poll that is done, a failure. */
  change(timeoutMs) {
    return new Promise((resolve) => {
      const waiter = () => {
        clearTimeout(timer);
        this.#waiters.delete(waiter);
        resolve();
      };
      const timer = setTimeout(waiter, timeoutMs);
      this.#waiters.add(waiter);
    });
  }

  #wake() {
    for (const waiter of [...this.#waiters]) waiter();
  }
}
