// kafkajs: eachBatch, which shows what was committed; eachMessage where the handler throws.

import kafkajs from 'kafkajs'
import { onTerminate, report, script, show, sleep, work } from './reporting.js'

const { Kafka, logLevel } = kafkajs
const kafka = new Kafka({
  clientId: script.client_id,
  brokers: [script.bootstrap_servers],
  logLevel: logLevel.WARN,
  retry: { initialRetryTime: 100, retries: 20 }
})
const consumer = kafka.consumer({
  groupId: script.group,
  sessionTimeout: script.session_timeout,
  rebalanceTimeout: script.max_poll_interval,
  heartbeatInterval: Math.min(3_000, script.session_timeout / 3),
  maxWaitTimeInMs: 500
})
const topics = script.topic.split(',')
const uncommitted = new Map()
let handled = 0
let acted = script.act === ''

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  report('assigned', { partitions: Object.values(payload.memberAssignment).flat() })
})
consumer.on(consumer.events.REBALANCING, () => report('revoked'))
consumer.on(consumer.events.CRASH, ({ payload }) => report('error', { text: String(payload.error) }))

// A header that stands several times is an array here.
const headersOf = message =>
  Object.entries(message.headers ?? {}).flatMap(([name, value]) => [value].flat().map(each => [name, each]))

async function handle(partition, message) {
  handled++
  show(partition, message.offset, message.timestamp, message.key, message.value, headersOf(message))
  if (!uncommitted.has(partition)) uncommitted.set(partition, message.offset)
  await work()
  if (!acted && script.act === 'stall' && handled === script.act_after) await sleep(script.act_seconds * 1000)
}

function act() {
  acted = true
  if (script.act === 'pause') {
    const paused = topics.map(topic => ({ topic }))
    consumer.pause(paused)
    sleep(600).then(() => consumer.resume(paused))
  } else if (script.act === 'seek') {
    for (const [partition, offset] of uncommitted) consumer.seek({ topic: script.topic, partition, offset })
  }
  report('acted')
}

async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale, commitOffsetsIfNecessary }) {
  for (const message of batch.messages) {
    if (!isRunning() || isStale()) return
    await handle(batch.partition, message)
    resolveOffset(message.offset)
    await heartbeat()
    if (!acted && handled >= script.act_after) return act()
    if (script.commit === 'auto') await commitOffsetsIfNecessary()
  }
  if (script.commit !== 'sync' || (!acted && script.act === 'seek')) return
  const next = String(BigInt(batch.lastOffset()) + 1n)
  try {
    await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: next }])
    uncommitted.delete(batch.partition)
    report('committed')
  } catch (error) {
    // Thrown on, it would end the consumer for good: kafkajs starts anew only after errors that can be retried.
    report('commit failed', { text: String(error) })
  }
}

async function eachMessage({ partition, message }) {
  if (!acted && handled >= script.act_after) {
    acted = true
    report('acted')
    throw new Error('the handler failed')
  }
  await handle(partition, message)
}

onTerminate(() => consumer.disconnect())
await consumer.connect()
await consumer.subscribe({ topics, fromBeginning: script.reset === 'earliest' })
await consumer.run({
  autoCommit: script.commit === 'auto',
  autoCommitInterval: script.commit_interval,
  eachBatchAutoResolve: false, // a batch is left in the middle where the script acts
  ...(script.act === 'throw' ? { eachMessage } : { eachBatch })
})
