// Consumers: a member of a group, and a reader of one partition, which in kafkajs is a member too.
'use strict';

const { eventually } = require('./check');

/**
 * A member that reads on its own until it leaves. What is read is committed first and counted then,
 * so nothing may be seen twice by a group whose members leave in good order.
 */
class Member {
  constructor(kafka, group, topic, options = {}) {
    this.topic = topic;
    this.records = [];
    this.assigned = [];
    this.consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 300, maxWaitTimeInMs: 200, ...options });
    const { GROUP_JOIN, REBALANCING } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, (e) => { this.assigned = e.payload.memberAssignment[topic] || []; });
    this.consumer.on(REBALANCING, () => { this.assigned = []; });
  }

  async join(fromBeginning = true) {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning });
    await this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset, isStale, heartbeat }) => {
        if (isStale()) return;
        const offset = String(Number(batch.lastOffset()) + 1);
        await this.consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset }]);
        resolveOffset(batch.lastOffset());
        this.records.push(...batch.messages.map((m) => ({ ...m, partition: batch.partition })));
        await heartbeat();
      },
    });
    return this;
  }

  get seen() {
    return this.records.map((m) => Number(m.value));
  }

  async leave() {
    await this.consumer.disconnect();
    this.assigned = [];
  }
}

/** Reads a partition without committing; it can be told where to go on. */
class Reader {
  constructor(kafka, topic, partition = 0) {
    Object.assign(this, { topic, partition, got: [] });
    this.consumer = kafka.consumer({ groupId: `reader-${topic}-${partition}-${Date.now()}`, maxWaitTimeInMs: 200 });
  }

  async open() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: true,
      eachBatch: async ({ batch, isStale }) => {
        if (batch.partition === this.partition && !isStale()) this.got.push(...batch.messages);
      },
    });
    return this;
  }

  /** Goes on from an offset, -2 for the first and -1 for the next one to be written. */
  seek(offset) {
    this.consumer.seek({ topic: this.topic, partition: this.partition, offset: String(offset) });
    this.got = []; // what is on its way here is stale from now on
  }

  async read(count, seconds = 20) {
    await eventually(seconds, () => {
      if (this.got.length < count) throw new Error(`${this.got.length} records came, want ${count}`);
    });
    return this.got.splice(0, count);
  }

  async close() {
    await this.consumer.disconnect();
  }
}

module.exports = { Member, Reader };
