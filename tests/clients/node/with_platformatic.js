// @platformatic/kafka: a stream of messages. Its own auto-commit commits what the application has not seen yet.

import { Consumer } from '@platformatic/kafka'
import { onTerminate, report, script, show, work } from './reporting.js'

const consumer = new Consumer({
  groupId: script.group,
  clientId: script.client_id,
  bootstrapBrokers: [script.bootstrap_servers],
  ...(script.instance_id === null ? {} : { groupInstanceId: script.instance_id }),
  sessionTimeout: script.session_timeout,
  heartbeatInterval: 1000,
  maxWaitTime: 500
})
let closing = false

consumer.on('consumer:group:join', () => {
  const partitions = (consumer.assignments ?? []).flatMap(each => each.partitions)
  report('assigned', { partitions })
})
consumer.on('consumer:group:rebalance', () => report('revoked'))

const stream = await consumer.consume({
  topics: [script.topic],
  mode: 'committed',
  fallbackMode: script.reset === 'none' ? 'fail' : script.reset,
  autocommit: script.commit === 'auto' ? script.commit_interval : false
})
onTerminate(async () => {
  closing = true
  await stream.close()
  await consumer.close(true)
})

try {
  for await (const message of stream) {
    const { partition, offset, timestamp, key, value, headers } = message
    show(partition, offset, timestamp, key, value, [...headers])
    await work()
    if (script.commit === 'sync') {
      await message.commit()
      report('committed')
    }
  }
} catch (error) {
  if (!closing) {
    report('error', { text: String(error) })
    throw error
  }
}
