// node-redis at the gateway: both versions of the protocol, transactions, errors.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const [port, modules] = process.argv.slice(2);
const { createClient } = createRequire(modules)('redis');
for (const RESP of [2, 3]) {
  const client = createClient({ socket: { port: Number(port) }, RESP, name: 'tester' });
  client.on('error', (error) => { throw error; });
  await client.connect();
  await client.flushAll();
  assert.equal(await client.set('k', 'v'), 'OK');
  assert.equal(await client.get('k'), 'v');
  assert.equal(await client.get('none'), null);
  assert.equal(await client.hSet('h', { a: '1', b: '2' }), 2);
  assert.deepEqual({ ...(await client.hGetAll('h')) }, { a: '1', b: '2' });
  assert.deepEqual(await client.mGet(['k', 'none']), ['v', null]);
  const together = await client.multi().set('n', '1').incr('n').get('none').exec();
  assert.deepEqual([...together], ['OK', 2, null]);
  await assert.rejects(client.multi().incr('n').expire('n', 3).exec());
  assert.equal(await client.get('n'), '2');
  await assert.rejects(client.set('big', 'x'.repeat(5 << 20)), /longer than 1048576 bytes/);
  assert.equal(await client.ping(), 'PONG');
  client.destroy();
}
