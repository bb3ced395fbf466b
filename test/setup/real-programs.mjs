// Other people's programs that tests and benchmarks run, and the places to look for each: its variable, PATH, its usual folders.
// JavaScript, because tests read it from source and benchmarks from `bench/dist`.

import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export const realPrograms = [
  { variable: 'NATS_SERVER_BIN', names: ['nats-server'], folders: ['/usr/sbin', '/usr/local/bin'], package: 'nats-server' },
  { variable: 'CHROMIUM_BIN', names: ['chromium', 'chromium-browser', 'google-chrome'], folders: ['/usr/bin'], package: 'chromium' },
  { variable: 'PROMTOOL_BIN', names: ['promtool'], folders: ['/usr/bin', '/usr/local/bin'], package: 'prometheus' },
  {
    variable: 'ALERTMANAGER_BIN',
    names: ['prometheus-alertmanager', 'alertmanager'],
    folders: ['/usr/bin', '/usr/local/bin'],
    package: 'prometheus-alertmanager',
  },
  { variable: 'PYTHON_BIN', names: ['python3'], folders: ['/usr/bin', '/usr/local/bin'], package: 'python3' },
];

/** The program's path: from its variable, from PATH, from its usual folders. */
export function findProgram(variable) {
  const program = realPrograms.find((one) => one.variable === variable);
  const named = process.env[variable];
  if (named !== undefined && named !== '') {
    if (isProgram(named)) return realpathSync(named);
    throw new Error(`${variable} must name a program, got "${named}"`);
  }
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), ...program.folders]) {
    for (const name of program.names) {
      const path = join(folder, name);
      if (folder !== '' && isProgram(path)) return path;
    }
  }
  return undefined;
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
