/**
 * The Node.js clients of the matrix: `node main.js --client NAME` hosts one client and speaks ../CONTROL.md on its standard input and output.
 *
 * Exit code 0: standard input ended. 2: wrong arguments. 3: the client is not installed; the first line is then `{"missing": "why"}`.
 */
import { parseArgs } from 'node:util';

import { serve, writeLine } from './lib/control.js';
import { MissingClient } from './lib/failures.js';

const CLIENTS = {
  kafkajs: () => import('./lib/kafkajs/client.js'),
  'platformatic-kafka': () => import('./lib/platformatic/client.js'),
  'confluent-kafka-javascript': () => import('./lib/confluent/client.js'),
};

const { values } = parseArgs({ options: { client: { type: 'string' } } });
if (!Object.hasOwn(CLIENTS, values.client ?? '')) {
  console.error(`usage: main.js --client ${Object.keys(CLIENTS).join('|')}`);
  process.exit(2);
}

try {
  const { client } = await CLIENTS[values.client]();
  await writeLine({
    ready: { client: values.client, version: client.version, runtime: `node ${process.versions.node}` },
  });
  await serve(client, process.stdin);
  process.exit(0);
} catch (error) {
  if (!(error instanceof MissingClient)) throw error;
  await writeLine({ missing: error.message });
  process.exit(3);
}
