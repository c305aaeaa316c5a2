// Drives kafkajs against the broker at $BROKER.
'use strict';

require('./codecs');
const crypto = require('node:crypto');
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs');
const { assert, broker, codecs, eventually, refused, same, sleep, storedCodec } = require('./check');
const { Member, Reader } = require('./members');

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: [process.env.BROKER],
  logLevel: process.env.LOG ? logLevel[process.env.LOG] : logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 8 },
});
const admin = kafka.admin();
const hasty = kafka.admin({ retry: { initialRetryTime: 50, retries: 1 } }); // for what is to be refused
const compression = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
};

// What the steps share.

const numbered = (start, count, more) => Array.from({ length: count }, (_, i) => ({ value: String(start + i), ...more }));
const range = (start, end) => Array.from({ length: end - start }, (_, i) => start + i);

async function create(topic, numPartitions, configs = {}) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const made = await admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] });
  if (!made) throw new Error('topic-already-exists'); // kafkajs says false instead of the error
}

async function produce(topic, messages, codec = 'none', options = {}) {
  const producer = kafka.producer(options);
  await producer.connect();
  try {
    return await producer.send({ topic, messages, acks: -1, compression: compression[codec] });
  } finally {
    await producer.disconnect();
  }
}

async function reading(topic, partition, use) {
  const reader = await new Reader(kafka, topic, partition).open();
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** A partition from its start: exactly what was sent. */
async function expect(topic, want, partition = 0) {
  const got = await reading(topic, partition, (reader) => reader.read(want.length));
  want.forEach((w, i) => {
    const g = got[i];
    same(`record ${i}: offset`, Number(g.offset), i);
    for (const field of ['key', 'value']) same(`record ${i}: ${field}`, g[field], w[field] == null ? null : Buffer.from(w[field]));
    const headers = (of) => Object.fromEntries(Object.entries(of || {}).map(([k, v]) => [k, [].concat(v).map(String)]));
    same(`record ${i}: headers`, headers(g.headers), headers(w.headers));
    if (w.timestamp) same(`record ${i}: timestamp`, g.timestamp, w.timestamp);
    else assert(Math.abs(g.timestamp - Date.now()) < 60000, `record ${i}: time ${g.timestamp} is not the present`);
  });
}

async function offsets(topic, partition = 0) {
  const all = await admin.fetchTopicOffsets(topic);
  const { low, high } = all.find((p) => p.partition === partition);
  return [Number(low), Number(high)];
}

async function committed(groupId, topic) {
  const [answer] = await admin.fetchOffsets({ groupId, topics: [topic] });
  return answer.partitions.map((p) => Number(p.offset));
}

/** Each member has so many of the four partitions, and together they have all, once. */
function shares(members, ...want) {
  same('partitions of each member', members.map((m) => m.assigned.length), want);
  same('all partitions', members.flatMap((m) => m.assigned).sort(), [0, 1, 2, 3]);
}

/** The members together have read the first so many numbers, each once. */
function received(count, ...members) {
  const seen = members.flatMap((m) => m.seen).sort((a, b) => a - b);
  const lost = range(0, count).filter((n) => !seen.includes(n));
  const twice = seen.filter((n, i) => n === seen[i - 1]);
  if (seen.length !== count || lost.length + twice.length > 0) {
    throw new Error(`read ${seen.length} of ${count}; lost ${lost.slice(0, 20)}; twice ${twice.slice(0, 20)}`);
  }
}

/** A hundred numbered records, spread over the four partitions. */
const feed = (topic, start) => produce(topic, numbered(start, 100).map((m, i) => ({ ...m, partition: i % 4 })));

const listed = async (topic) => (await admin.listTopics()).includes(topic);

const steps = {
  async 'topics: create, list, describe, again, delete'() {
    await create('created', 3);
    assert(await listed('created'), 'not listed');
    const { topics: [{ partitions }] } = await admin.fetchTopicMetadata({ topics: ['created'] });
    same('leaders', partitions.map((p) => [p.partitionId, p.leader]).sort(), [[0, 1], [1, 1], [2, 1]]);
    await refused('already-exists', () => create('created', 3));
    await refused('INVALID_TOPIC_EXCEPTION', () => create('not/a/name', 1));
    await refused('INVALID_PARTITIONS', () => create('none', 0));
    await admin.deleteTopics({ topics: ['created'] });
    await eventually(10, async () => assert(!(await listed('created')), 'still listed after it was deleted'));
    await refused('UNKNOWN_TOPIC_OR_PARTITION', () => hasty.deleteTopics({ topics: ['created'] }));
    await create('created', 1);
    await produce('created', numbered(0, 3));
    await expect('created', numbered(0, 3));
    await admin.deleteTopics({ topics: ['created'] });
  },

  async 'topic configs: read, changed, refused'() {
    const type = ConfigResourceTypes.TOPIC;
    const name = 'configs';
    const read = async () => {
      const { resources } = await admin.describeConfigs({ resources: [{ type, name }] });
      return Object.fromEntries(resources[0].configEntries.map((c) => [c.configName, c.configValue]));
    };
    const change = (configEntries) => admin.alterConfigs({ resources: [{ type, name, configEntries }] });
    await create(name, 1, { 'cleanup.policy': 'compact' });
    same('as created', (await read())['cleanup.policy'], 'compact');
    await change([{ name: 'retention.ms', value: '3600000' }]);
    const got = await read();
    same('as changed', got['retention.ms'], '3600000');
    same('the whole set was replaced', got['cleanup.policy'], 'delete');
    await refused('INVALID_CONFIG', () => change([{ name: 'retention.ms', value: 'soon' }]));
    await refused('INVALID_CONFIG', () => create('bad', 1, { 'no.such.setting': '1' }));
  },

  async 'topic: more partitions'() {
    await create('grows', 1);
    const grow = (count) => admin.createPartitions({ topicPartitions: [{ topic: 'grows', count }] });
    await grow(4);
    await refused('INVALID_PARTITIONS', () => grow(2));
    await produce('grows', numbered(0, 3, { partition: 3 }));
    await expect('grows', numbered(0, 3), 3);
  },

  async 'delete records'() {
    await create('shortened', 1);
    await produce('shortened', numbered(0, 10));
    same('offsets before', await offsets('shortened'), [0, 10]); // kafkajs knows the leaders of topics it has met
    await admin.deleteTopicRecords({ topic: 'shortened', partitions: [{ partition: 0, offset: '4' }] });
    same('offsets', await offsets('shortened'), [4, 10]);
    const left = await reading('shortened', 0, (reader) => reader.read(6));
    same('what is left', left.map((m) => Number(m.value)), range(4, 10));
  },

  async 'topic: made by the first record'() {
    await produce('auto', numbered(0, 10));
    await expect('auto', numbered(0, 10));
  },

  ...Object.fromEntries(codecs.map((codec) => [`codec ${codec}`, async () => {
    const topic = `codec-${codec}`;
    await create(topic, 1);
    const messages = range(0, 500).map((i) => ({ key: `key ${i % 7}`, value: `${i} ${'value '.repeat(20)}` }));
    await produce(topic, messages, codec);
    same('codec on disk', storedCodec(topic), codec);
    await expect(topic, messages);
  }])),

  async 'keys and values: null, empty, any bytes'() {
    await create('nulls', 1);
    const messages = [
      { key: 'k', value: 'v' }, { key: 'k', value: null }, { key: null, value: 'v' }, { key: '', value: 'v' },
      { key: 'k', value: '' }, { key: null, value: null }, { key: Buffer.from([0, 0xff, 10]), value: Buffer.from([0x80, 0]) },
    ];
    await produce('nulls', messages);
    await expect('nulls', messages);
  },

  async headers() {
    await create('headers', 1);
    const messages = [
      { value: '1', headers: { a: ['1', '2'], b: '' } },
      { value: '2' },
      { value: '3', headers: { 'ключ': 'значение' } },
    ];
    await produce('headers', messages);
    await expect('headers', messages);
  },

  async 'timestamps and offsets by time'() {
    await create('times', 1);
    const [minute, start] = [60000, Date.now() - 3600000];
    const messages = range(0, 10).map((i) => ({ value: String(i), timestamp: String(start + i * minute) }));
    await produce('times', messages);
    await expect('times', messages);
    // kafkajs gives the next offset when no record is that late.
    const cases = [[-5, 0], [0, 0], [3 * minute, 3], [3 * minute + 1, 4], [9 * minute, 9], [10 * minute, 10]];
    for (const [after, want] of cases) {
      const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp('times', start + after);
      same(`offset by time ${after}`, Number(offset), want);
    }
    same('first and next', await offsets('times'), [0, 10]);
  },

  async 'seek, beginning, end'() {
    await create('seeks', 1);
    await produce('seeks', numbered(0, 100));
    await reading('seeks', 0, async (reader) => {
      const next = async (count) => (await reader.read(count)).map((m) => Number(m.value));
      same('from the beginning', await next(5), range(0, 5));
      reader.seek(42);
      same('from 42', await next(3), range(42, 45));
      const [low, high] = await offsets('seeks');
      reader.seek(high);
      await sleep(500);
      same('at the end', reader.got.length, 0);
      await produce('seeks', numbered(100, 2));
      same('what came since', await next(2), [100, 101]);
      reader.seek(low);
      same('from the beginning again', await next(2), [0, 1]);
      reader.seek(5000);
      same('out of range', await next(2), [0, 1]);
    });
    // A group without offsets that begins at the end.
    const late = await new Member(kafka, 'late', 'seeks').join(false);
    try {
      await eventually(10, () => same('assigned', late.assigned, [0]));
      await sleep(500);
      await produce('seeks', numbered(102, 3));
      await eventually(10, () => same('what came since it joined', late.seen, [102, 103, 104]));
    } finally {
      await late.leave();
    }
  },

  async 'message sizes: 900 KiB, too large, allowed by the topic'() {
    await create('large', 1);
    const around = (size) => [{ value: 'before' }, { value: crypto.randomBytes(size) }, { value: 'after' }];
    const one = async (topic, messages) => { for (const m of messages) await produce(topic, [m]); };
    const messages = around(900 << 10);
    await one('large', messages);
    await expect('large', messages);
    await refused('MESSAGE_TOO_LARGE', () => produce('large', [{ value: crypto.randomBytes(1200000) }]));
    same('offsets', await offsets('large'), [0, 3]);
    // Larger than what the reader asks for of a partition: it is served whole all the same (KIP-74).
    const larger = around(2500000);
    await create('larger', 1, { 'max.message.bytes': '3000000' });
    await one('larger', larger);
    await expect('larger', larger);
  },

  async 'unknown topic'() {
    const options = { allowAutoTopicCreation: false, retry: { retries: 1, initialRetryTime: 50 } };
    await refused('UNKNOWN_TOPIC_OR_PARTITION', () => produce('unmade', numbered(0, 1), 'none', options));
    await refused('UNKNOWN_TOPIC_OR_PARTITION', () => hasty.fetchTopicOffsets('unmade'));
    assert(!(await listed('unmade')), 'it was made');
    await again('restart', { OVERRIDES: 'auto.create.topics.enable=false' });
    try {
      await refused('UNKNOWN_TOPIC_OR_PARTITION', () => produce('unmade', numbered(0, 1), 'none', { retry: options.retry }));
      assert(!(await listed('unmade')), 'it was made');
    } finally {
      await again('restart');
    }
  },

  // The broker is killed and restarted while records are sent: all are there once, in order.
  async 'idempotent producer through kill -9 and a restart'() {
    await create('idempotent', 1);
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    const send = async () => {
      for (const i of range(0, 200)) {
        await producer.send({ topic: 'idempotent', messages: numbered(10 * i, 10) });
        await sleep(10);
      }
    };
    const interrupt = async () => {
      for (const verb of ['crash', 'restart']) {
        await sleep(600);
        await again(verb);
      }
    };
    await Promise.all([send(), interrupt()]);
    await producer.disconnect();
    same('offsets', await offsets('idempotent'), [0, 2000]);
    await expect('idempotent', numbered(0, 2000));
  },

  async 'group: two members, one leaves'() {
    await create('group', 4);
    const join = () => new Member(kafka, 'group', 'group').join();
    const members = [await join()];
    try {
      await eventually(15, () => shares(members, 4));
      await feed('group', 0);
      await eventually(10, () => received(100, ...members));
      members.push(await join());
      await eventually(20, () => shares(members, 2, 2));
      await feed('group', 100);
      await eventually(10, () => received(200, ...members));
      assert(members[1].seen.length > 0, 'the second member read nothing');
      const { groups: all } = await admin.listGroups();
      assert(all.some((g) => g.groupId === 'group' && g.protocolType === 'consumer'), 'the group is not listed');
      const { groups: [described] } = await admin.describeGroups(['group']);
      same('described', [described.state, described.members.length], ['Stable', 2]);
      await members[0].leave();
      await eventually(15, () => shares(members.slice(1), 4));
      await feed('group', 200);
      await eventually(10, () => received(300, ...members));
    } finally {
      for (const m of members) await m.leave();
    }
    received(300, ...members);
    same('committed', (await committed('group', 'group')).reduce((a, b) => a + b), 300);
    await admin.resetOffsets({ groupId: 'group', topic: 'group', earliest: true });
    same('offsets set back', (await committed('group', 'group')).filter((o) => o > 0), []);
    await admin.deleteGroups(['group']);
    assert(!(await admin.listGroups()).groups.some((g) => g.groupId === 'group'), 'still listed after it was deleted');
    await refused('GROUP_ID_NOT_FOUND', async () => {
      await hasty.deleteGroups(['group']).catch((e) => { throw e.groups[0].error; });
    });
  },

  async 'group: members live through kill -9 and a restart'() {
    await create('survives', 4);
    const members = [];
    for (const _ of range(0, 2)) members.push(await new Member(kafka, 'survives', 'survives').join());
    try {
      await eventually(20, () => shares(members, 2, 2));
      for (const [i, verb] of ['crash', 'restart'].entries()) {
        await feed('survives', 100 * i);
        await eventually(10, () => received(100 * (i + 1), ...members));
        await again(verb);
      }
      await feed('survives', 200);
      await eventually(15, () => received(300, ...members));
    } finally {
      for (const m of members) await m.leave();
    }
  },

  // A group goes on where it stopped, whatever happened to the broker in between.
  async 'committed offsets outlive kill -9 and a restart'() {
    await create('committed', 1);
    for (const [i, verb] of ['crash', 'restart', null].entries()) {
      await produce('committed', numbered(10 * i, 10));
      const member = await new Member(kafka, 'committed', 'committed').join();
      try {
        await eventually(15, () => assert(member.seen.length >= 10, `read ${member.seen}`));
      } finally {
        await member.leave();
      }
      same(`round ${i}`, member.seen, range(10 * i, 10 * i + 10));
      if (verb) await again(verb);
      same('committed', await committed('committed', 'committed'), [10 * i + 10]);
    }
  },
};

/** Ends and starts the broker, until the admin's calls work again. */
async function again(verb, environment) {
  await broker(verb, environment);
  await eventually(10, () => admin.listTopics());
}

async function main() {
  let failed = false;
  await Promise.all([admin.connect(), hasty.connect()]);
  for (const [name, step] of Object.entries(steps)) {
    if (!name.includes(process.env.ONLY || '')) continue;
    const began = Date.now();
    try {
      await step();
      console.log(`ok ${name}`);
    } catch (e) {
      console.error(e);
      console.log(`FAIL ${name}: ${String(e.message || e).replace(/\s+/g, ' ')}`);
      failed = true;
    }
    if (process.env.TIMES) console.log(`# ${(Date.now() - began) / 1000} s`);
  }
  await Promise.all([admin.disconnect(), hasty.disconnect()]);
  process.exit(failed ? 1 : 0);
}

main();
