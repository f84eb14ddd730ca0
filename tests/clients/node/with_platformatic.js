// @platformatic/kafka: a stream of messages. Its own auto-commit commits what the application has not seen yet.

import { Consumer } from '@platformatic/kafka'
import { onTerminate, report, script, show, sleep, work } from './reporting.js'

class HandlerFailed extends Error {}

let handled = 0
let acted = script.act === ''
let closing = false
let close = async () => {}

async function start() {
  const consumer = new Consumer({
    groupId: script.group,
    clientId: script.client_id,
    bootstrapBrokers: [script.bootstrap_servers],
    ...(script.instance_id === null ? {} : { groupInstanceId: script.instance_id }),
    sessionTimeout: script.session_timeout,
    rebalanceTimeout: script.max_poll_interval,
    heartbeatInterval: 1000,
    maxWaitTime: 500
  })
  consumer.on('consumer:group:join', () => {
    const partitions = (consumer.assignments ?? []).flatMap(each => each.partitions)
    report('assigned', { partitions })
  })
  consumer.on('consumer:group:rebalance', () => report('revoked'))
  const stream = await consumer.consume({
    topics: script.topic.split(','),
    mode: 'committed',
    fallbackMode: script.reset === 'none' ? 'fail' : script.reset,
    autocommit: script.commit === 'auto' ? script.commit_interval : false
  })
  close = async () => {
    await stream.close()
    await consumer.close(true)
  }
  return stream
}

async function handle({ partition, offset, timestamp, key, value, headers }) {
  handled++
  show(partition, offset, timestamp, key, value, [...headers])
  await work()
  if (acted || handled !== script.act_after) return
  acted = true
  if (script.act === 'stall') await sleep(script.act_seconds * 1000)
  report('acted')
  if (script.act === 'throw') throw new HandlerFailed()
}

onTerminate(async () => {
  closing = true
  await close()
})

while (!closing) {
  try {
    for await (const message of await start()) {
      await handle(message)
      if (script.commit === 'sync') {
        await message.commit()
        report('committed')
      }
    }
  } catch (error) {
    // It gives up after three tries, e.g. while the mesh is away; then the application begins anew.
    if (!closing && !(error instanceof HandlerFailed)) report('stream failed', { text: String(error) })
  }
  if (!closing) await Promise.race([close().catch(() => {}), sleep(5_000)])
}
