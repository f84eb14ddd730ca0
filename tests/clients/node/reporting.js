// The script that a consumer carries out and the lines it writes; see script.py.

import { setTimeout as sleep } from 'node:timers/promises'

export const script = JSON.parse(process.argv[2])

const text = part => (part === null || part === undefined ? null : Buffer.from(part).toString('base64'))

export function show(partition, offset, timestamp, key, value, headers) {
  const line = {
    event: 'record',
    partition,
    offset: Number(offset),
    timestamp: Number(timestamp),
    timestamp_type: 0, // neither library shows it
    key: text(key),
    value: text(value),
    headers: headers.map(([name, part]) => [name.toString(), text(part)])
  }
  process.stdout.write(JSON.stringify(line) + '\n')
}

export function report(event, details = {}) {
  process.stdout.write(JSON.stringify({ event, ...details }) + '\n')
}

export const work = () => (script.seconds_per_record ? sleep(script.seconds_per_record * 1000) : undefined)

export function onTerminate(close) {
  process.once('SIGTERM', async () => {
    await close()
    process.exit(0)
  })
}

export { sleep }
