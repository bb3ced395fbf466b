// Runs main.ts for `npm run chaos`: Node 20 cannot load it by itself, so it goes through the same transformation as the tests.

import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';
import { findProgram, realPrograms } from '../setup/real-programs.mjs';

const broker = realPrograms.find(({ variable }) => variable === 'NATS_SERVER_BIN');
process.env.NATS_SERVER_BIN = findProgram(broker.variable) ?? '';
if (process.env.NATS_SERVER_BIN === '') {
  console.error(`chaos: nats-server is missing; install it (Debian: apt-get install ${broker.package}) or set ${broker.variable}`);
  process.exit(2);
}
const main = fileURLToPath(new URL('./main.ts', import.meta.url));
const { module } = await runnerImport(main, { configFile: false, logLevel: 'silent', oxc: { target: 'node20' } });
process.exit(await module.main(process.argv.slice(2)));
