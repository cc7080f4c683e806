// node-redis at a gateway with TLS and users: node secured.mjs PORT CA MODULES.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [port, authority, modules] = process.argv.slice(2);
const { createClient } = createRequire(modules)('redis');
const tls = { tls: true, ca: readFileSync(authority) };
const client = (RESP, password, socket) => {
  const made = createClient({
    socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: false, ...socket },
    RESP,
    username: 'app',
    password,
  });
  // What is wrong is told by the promise.
  return made.on('error', () => {});
};
for (const RESP of [2, 3]) {
  const app = await client(RESP, 'secret', tls).connect();
  assert.equal(await app.set('app:k', 'v'), 'OK');
  assert.equal(await app.get('app:k'), 'v');
  assert.deepEqual([...(await app.multi().incr('app:n').del('app:n').exec())], [1, 1]);
  await assert.rejects(app.set('other', 'v'), /NOPERM No permissions to access a key/);
  await assert.rejects(app.flushAll(), /NOPERM .* to run the 'flushall' command/);
  app.destroy();
  await assert.rejects(client(RESP, 'wrong', tls).connect(), /WRONGPASS/);
}
// The port speaks TLS alone, and its certificate is of an authority that the system does not know.
await assert.rejects(client(3, 'secret', {}).connect());
await assert.rejects(client(3, 'secret', { tls: true }).connect(), /certificate/);
