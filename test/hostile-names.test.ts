// Names that try to control the reader's terminal: in spans, hosts, metadata, files, configuration, answers of a service. Every command prints them,
// and none of them reaches stdout or stderr as anything but text.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { rankTime } from '@ranktrace/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inspectorLogs } from '../packages/trace/src/testing/inspector-logs.ts';
import { timelineOf } from '../packages/trace/src/testing/ndtimeline-timeline.ts';
import { pipelineJob } from '../packages/trace/src/testing/pipeline-job.ts';
import { exampleBatches } from './setup/batches.ts';
import { type CommandResult, runCommand, startCommand } from './setup/ranktrace-command.ts';
import { storeRun } from './setup/viewed-runs.ts';
import { runLine } from './setup/warm-command.ts';

/** Escape sequences of seven and eight bits, a title, a line of its own, reversed text, a tab that breaks a table. */
const evil = 'evil\u001b]0;owned\u0007\u001b[2J\nFORGED line\r\u009b31m\u202e\u2028\ttail\u007f';
/** The same where a file's name or a string of YAML must hold it. */
const evilFile = `evil\u001b[31m\nFORGED\u202e`;

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-names-'));
const at = (...names: string[]): string => join(directory, ...names);

/** Characters that only a terminal reads: all controls but our line ends. A forged line stands at the beginning of one. */
function expectHarmless({ stdout, stderr }: Pick<CommandResult, 'stdout' | 'stderr'>, what: string): void {
  for (const text of [stdout, stderr]) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
    const raw = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]|\p{Bidi_Control}|[\u2028\u2029]/u.exec(text);
    expect(raw === null ? '' : JSON.stringify(text.slice(Math.max(0, raw.index - 60), raw.index + 20)), what).toBe('');
    expect(
      text.split('\n').filter((line) => /^\s*FORGED/.test(line)),
      what,
    ).toEqual([]);
  }
}

/** Texts that give a column its meaning; all others may be anything. */
const meant = new Set(['', 'thread', 'client', '9000000000000000']);

async function writeStore(out: string, run: string): Promise<void> {
  const { 'every-table': every } = exampleBatches();
  if (every === undefined) throw new Error('There must be an example of every table');
  const strings = every.strings.map((text) => (meant.has(text) ? text : `${evil} ${text}`));
  const batches = [0, 1].map((rank) => {
    const about = { run, rank, worldSize: 3, sequence: 0, last: rank === 0, hostName: evil, incarnation: `000${rank}` };
    return { ...every, strings, header: { ...every.header, ...about, watermark: rankTime(3_000_000) } };
  });
  await storeRun(out, run, batches);
}

function kineto(rank: number): Buffer {
  const about = { ph: 'X', pid: 9, tid: 1 };
  const traceEvents = [
    { ph: 'M', name: 'process_name', pid: 9, tid: 0, ts: 0, args: { name: evil } },
    { ph: 'M', name: 'thread_name', pid: 9, tid: 1, ts: 0, args: { name: evil } },
    ...[0, 1, 2, 3].map((step) => ({ ...about, cat: 'user_annotation', name: `ProfilerStep#${step}`, ts: 1000 * step, dur: 900 })),
    ...[0, 1, 2, 3].map((step) => ({ ...about, cat: 'user_annotation', name: evil, ts: 1000 * step + 10, dur: 700 })),
    {
      ...{ ...about, cat: 'cpu_op', name: `${evil} op`, ts: 20, dur: 50 },
      args: { [evil]: evil, 'Call stack': `${evil};${evil}`, 'Input Dims': [[evil]], 'Input type': [evil] },
    },
    { ph: 'i', cat: evil, name: evil, pid: 9, tid: 1, ts: 30 },
    { ph: 'C', name: evil, pid: 9, tid: 1, ts: 30, args: { [evil]: 3 } },
    'no event',
  ];
  const distributedInfo = { rank, world_size: 2, backend: evil, pg_config: [{ pg_name: evil, ranks: [0, 1] }] };
  const deviceProperties = [{ id: 0, name: evil }];
  return gzipSync(JSON.stringify({ distributedInfo, deviceProperties, host_name: evil, [evil]: evil, torch_version: evil, traceEvents }));
}

const zipkinSpan = (id: number, kind: string, service: string) => ({
  ...{ traceId: '0000000000000001', id: `000000000000000${id}`, kind, name: evil, timestamp: 1_700_000_000_000_000 + id, duration: 1000 },
  localEndpoint: { serviceName: `${service} ${evil}` },
  tags: { [evil]: evil, error: evil },
  annotations: [{ timestamp: 1_700_000_000_000_100, value: evil }],
});

const alert = {
  ...{ id: evil, run: evil, rule: 'step_time', state: 'firing', severity: 'warning', summary: evil, series: { kind: 'cluster' } },
  ...{ firedAt: '2026-01-05T12:00:01Z', resolvedAt: null, resolution: null, step: 3, onsetStep: 2, onsetAt: null, unit: 'ns' },
  ...{ before: 1, after: 2, change: 1, confidence: null, ranks: [0], link: evil },
  cause: { kind: evil.slice(0, 64), ranks: [0], hosts: [evil], phase: evil, share: null, text: evil },
  capture: { state: 'failed', path: evil, fromStep: null, toStep: null, ranks: [], ranksMissing: [], text: evil },
};

/** A foreign service, whose answers have the right form. */
const answers: Readonly<Record<string, unknown>> = {
  '/status': {
    type: 'status',
    quarantined: 0,
    runs: [
      {
        ...{ run: evil, worldSize: 2 },
        ranks: [
          {
            ...{ rank: 0, incarnation: evil, host: evil, hostName: evil, batches: 1, missing: 0, events: 1, step: 1 },
            dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
            ...{ ended: false, state: 'live', silentMs: 0, inside: evil.slice(0, 64), insideMs: 1e6 },
          },
        ],
      },
    ],
  },
  '/v1/alerts': { alerts: [alert] },
  '/v1/capture': { run: evil, path: evil, fromStep: 1, toStep: 2, ranks: [0], late: [1], dead: [], notes: [evil] },
};

let foreign: Server;
let url: string;
let refusing: string;

const store = (): string => at('runs', 'night');
const recordings = {
  store,
  torch: () => at('torch'),
  'torch file': () => at('torch', `rank0 ${evilFile}.json.gz`),
  zipkin: () => at(`zipkin ${evilFile}.json`),
  inspector: () => at(`node ${evilFile}.log`),
  ndtimeline: () => at(`timeline ${evilFile}.json`),
  pftrace: () => at(`one ${evilFile}.pftrace`),
  'no trace': () => at(`broken ${evilFile}.json`),
  'nothing there': () => at(`missing ${evilFile}`),
} as const;

const everyRecording = (args: (input: string, name: string) => string[]) => async (): Promise<void> => {
  for (const [name, path] of Object.entries(recordings)) {
    for (const more of [[], ['--json']]) {
      const line = [...args(path(), name), ...more];
      const result = await runLine(line);
      expectHarmless(result, `${line[0]} ${name} ${more}`);
      if (result.code === 0 && more.length > 0 && result.stdout !== '') {
        expect(
          result.stdout
            .trimEnd()
            .split('\n')
            .map((text) => JSON.parse(text)).length,
          `${line[0]} ${name}`,
        ).toBe(1);
      }
    }
  }
};

/** By command: a case that makes it print names. A command without one fails the first test. */
const commands: Readonly<Record<string, () => Promise<void>>> = {
  run: async () => {
    const program = `
      import { profile } from '@ranktrace/sdk';
      const evil = ${JSON.stringify(evil)};
      const prof = profile().start();
      prof.addMetadata?.(evil, evil);
      for (let step = 0; step < 20; step++) {
        prof.recordFunction?.(evil, () => 1);
        await prof.collective({ op: evil, group: evil, bytes: 1 }, async () => 1);
        prof.step();
      }
      await prof.stop();`;
    writeFileSync(at('evil.mjs'), program);
    const rank = ['--', process.execPath, '--input-type=module', '-e', program];
    for (const more of [[], ['--json']]) {
      const out = at(`run ${evilFile} ${more.length}`);
      const result = await runCommand(['run', '--ranks', '2', '--name', 'live', '--out', out, ...more, ...rank]);
      expect(result.stdout, result.stderr).toContain('live');
      expectHarmless(result, `run ${more}`);
    }
    expectHarmless(await runCommand(['run', '--name', evil, '--', 'true']), 'run: a bad name');
    expectHarmless(await runCommand(['run', '--out', at('none'), '--', `no-such ${evil}`]), 'run: no such program');
  },
  serve: async () => {
    const config = at(`config ${evilFile}.yml`);
    writeFileSync(config, `${JSON.stringify(evil)}: 3\noutputs:\n  - type: ${JSON.stringify(evil)}\n    name: ${JSON.stringify(evil)}\n`);
    expectHarmless(await runLine(['serve', '--config', config, '--check-config']), 'serve --check-config');
    expectHarmless(await runLine(['serve', '--listen', evil]), 'serve --listen');
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', at(`served ${evilFile}`)]);
    await service.said('listening on');
    const address = /listening on (http:\S+?),/.exec(service.output())?.[1] as string;
    const ranks = startCommand(['run', '--help']);
    await ranks.ended;
    await sendHostile(address);
    const [top, alerts] = [await runLine(['top', '--once', '--url', address]), await runLine(['alerts', '--url', address])];
    expectHarmless(top, 'top of a service with hostile ranks');
    expectHarmless(alerts, 'alerts of it');
    service.child.kill('SIGINT');
    const result = await service.ended;
    expect(result.stderr).toContain('run sent');
    expectHarmless(result, 'serve');
  },
  agent: async () => {
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', at('agent out')]);
    await service.said('listening on');
    const address = /listening on (http:\S+?),/.exec(service.output())?.[1]?.replace(/^http/, 'ws') as string;
    // Ranks of a job whose launcher, devices and folders have such names.
    const names = {
      SLURM_JOB_ID: 'hostile',
      TORCHELASTIC_RUN_ID: evil,
      MASTER_ADDR: evil,
      CUDA_VISIBLE_DEVICES: evil,
      KINETO_IPC_SOCKET_DIR: at(evilFile),
    };
    const ranks = [{ RANK: '0' }, { RANK: evil }].map((rank) =>
      spawn(process.execPath, ['-e', 'setTimeout(() => {}, 600_000)'], {
        env: { ...process.env, ...names, WORLD_SIZE: '2', ...rank },
        stdio: 'ignore',
      }),
    );
    const folder = at(`sockets ${evilFile}`);
    mkdirSync(folder);
    const agent = startCommand(['agent', '--url', address, '--socket-dir', folder], {
      RANKTRACE_SPOOL_DIRECTORY: at('agent spool'),
      SLURM_JOB_ID: 'hostile',
    });
    await Promise.all([agent.said('rank 0 of 2'), agent.said('make no sense')]);
    for (const rank of ranks) rank.kill('SIGKILL');
    agent.child.kill('SIGINT');
    expectHarmless(await agent.ended, 'agent');
    service.child.kill('SIGINT');
    expectHarmless(await service.ended, 'serve, for an agent');
    for (const wrong of [['--url', evil], ['--ranks', evil], ['--run', evil], []])
      expectHarmless(await runLine(['agent', ...wrong]), `agent ${wrong}`);
  },
  watch: async () => {
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', at('watch out')]);
    await service.said('listening on');
    const address = /listening on (http:\S+?),/.exec(service.output())?.[1]?.replace(/^http/, 'ws') as string;
    const environment = { RANKTRACE_SPOOL_DIRECTORY: at('watch spool') };
    const watch = startCommand(['watch', at('torch'), at(`none ${evilFile}`), '--url', address, '--run', 'watched'], environment);
    await Promise.all([watch.said('shipped as rank 0'), watch.said('shipped as rank 1')]);
    watch.child.kill('SIGINT');
    expectHarmless(await watch.ended, 'watch');
    const result = await runLine(['report', at('watch out', 'watched')]);
    expect(result.stdout, result.stderr).toContain('2 of 2 ranks');
    expectHarmless(result, 'report of watched files');
    service.child.kill('SIGINT');
    expectHarmless(await service.ended, 'serve, for watch');
    for (const wrong of [['--url', evil], ['--run', evil], []])
      expectHarmless(await runLine(['watch', at('torch'), ...wrong]), `watch ${wrong}`);
  },
  top: async () => {
    const result = await runLine(['top', '--once', '--url', url]);
    expect(result.stdout, result.stderr).toContain('ranks 1/2');
    expectHarmless(result, 'top');
    expectHarmless(await runLine(['top', '--once', '--url', url, '--run', evil]), 'top --run');
    expectHarmless(await runLine(['top', '--once', '--url', refusing]), 'top of no service');
  },
  view: async () => {
    for (const [name, path] of Object.entries(recordings)) {
      const view = startCommand(['view', '--no-open', path()]);
      await Promise.race([view.said('indexed').catch(() => undefined), view.ended]);
      view.child.kill('SIGINT');
      expectHarmless(await view.ended, `view ${name}`);
    }
  },
  merge: everyRecording((input) => ['merge', input, '-o', at(`merged ${evilFile}.txt`)]),
  report: everyRecording((input) => ['report', input]),
  table: async () => {
    await everyRecording((input) => ['table', input])();
    for (const more of [['--group-by-shape'], ['--group-by-stack', '3'], ['--sort', evil]]) {
      expectHarmless(await runLine(['table', recordings['torch file'](), ...more]), `table ${more[0]}`);
      expectHarmless(await runLine(['table', store(), '--rank', '0', ...more]), `table --rank 0 ${more[0]}`);
    }
  },
  diff: async () => {
    await everyRecording((input) => ['diff', input, input])();
    // All names differ, and all lines are shown.
    for (const more of [['--all', '--limit', '-1'], ['--json'], ['--sort', evil]])
      expectHarmless(await runLine(['diff', store(), recordings['torch file'](), ...more]), `diff of two ${more[0]}`);
  },
  export: async () => {
    for (const format of ['kineto', 'chrome', 'perfetto', 'folded', 'csv'])
      await everyRecording((input, name) => ['export', input, '--to', format, '-o', `${at(`${format} ${name} ${evilFile}`)}/`])();
    expectHarmless(await runLine(['export', store(), '--to', evil, '-o', evil]), 'export --to');
    expectHarmless(await runLine(['export', store(), '--to', 'csv', '--from', evil, '-o', at(evilFile)]), 'export --from');
  },
  dump: async () => {
    for (const [name, path] of Object.entries(recordings)) expectHarmless(await runLine(['dump', path()]), `dump ${name}`);
    expectHarmless(await runLine(['dump', '--batches', store()]), 'dump --batches');
  },
  capture: async () => {
    for (const more of [[], ['--json']]) expectHarmless(await runLine(['capture', '--steps', '2', '--url', url, ...more]), 'capture');
    expectHarmless(await runLine(['capture', '--steps', '2', '--url', refusing]), 'capture, refused');
    expectHarmless(await runLine(['capture', '--steps', '2', '--url', evil]), 'capture of no address');
  },
  alerts: async () => {
    for (const more of [[], ['--json']]) {
      const result = await runLine(['alerts', '--url', url, ...more]);
      expect(result.stdout, result.stderr).toContain('owned');
      expectHarmless(result, 'alerts of a service');
      expectHarmless(await runLine(['alerts', store(), ...more]), 'alerts of a run');
    }
    expectHarmless(await runLine(['alerts', '--url', refusing]), 'alerts, refused');
  },
  detect: async () => {
    const file = at(`steps ${evilFile}.csv`);
    const rows = Array.from({ length: 400 }, (_, step) => `${step},${step < 250 ? 100 : 130}.${step % 7},"${evil}"`);
    writeFileSync(file, ['step,time_ms,context', ...rows].join('\n'));
    for (const more of [[], ['--json'], ['--column', `time=${evil}`], ['--column', evil]]) {
      expectHarmless(await runLine(['detect', file, ...more]), `detect ${more[0]}`);
    }
  },
  check: async () => {
    await everyRecording((input) => ['check', input, '--baseline', input])();
    const saved = at(`saved ${evilFile}.json`);
    expectHarmless(await runLine(['check', at('torch'), '--save', saved]), 'check --save');
    for (const format of ['text', 'markdown', 'junit', 'json']) {
      expectHarmless(await runLine(['check', at('torch'), '--baseline', saved, '--format', format]), `check --format ${format}`);
    }
  },
  prune: async () => {
    for (const more of [['--dry-run'], ['--json']]) {
      expectHarmless(await runLine(['prune', at('runs'), '--keep-detail', '1d', ...more]), 'prune');
    }
    expectHarmless(await runLine(['prune', at(`no ${evilFile}`), '--keep-detail', '1d']), 'prune of nothing');
    expectHarmless(await runLine(['prune', at('runs'), '--keep-detail', evil]), 'prune, bad age');
  },
  doctor: async () => {
    await everyRecording((input) => ['doctor', input])();
    expectHarmless(await runLine(['doctor', '--out', at(`out ${evilFile}`), '--nats', `nats://127.0.0.1:1/${evil}`]), 'doctor');
  },
  simulate: async () => {
    const small = ['--ranks', '2', '--hosts', '1', '--steps', '3'];
    const result = await runLine(['simulate', ...small, '--out', at(`simulated ${evilFile}`), '--run', 'one']);
    expect(result.stdout, result.stderr).toContain('run one');
    expectHarmless(result, 'simulate');
    expectHarmless(await runLine(['simulate', '--run', evil]), 'simulate --run');
    expectHarmless(await runLine(['simulate', '--straggler', evil]), 'simulate --straggler');
  },
};

/** Batches as any client of the service may send them. */
async function sendHostile(address: string): Promise<void> {
  const program = `
    import { profile } from '@ranktrace/sdk';
    const evil = ${JSON.stringify(evil)};
    const prof = profile({ run: 'sent', url: ${JSON.stringify(address.replace(/^http/, 'ws'))} }).start();
    for (let step = 0; step < 10; step++) { await prof.collective({ op: evil, bytes: 1 }, async () => 1); prof.step(); }
    await prof.stop();`;
  const { startProgram } = await import('./setup/ranktrace-command.ts');
  const options = { cwd: process.cwd(), env: process.env, ownGroup: false };
  const result = await startProgram(process.execPath, ['--input-type=module', '-e', program], options).ended;
  expect(result.code, result.stderr).toBe(0);
}

beforeAll(async () => {
  await writeStore(at('runs'), 'night');
  writeFileSync(at('runs', 'night', 'alerts.jsonl'), `${JSON.stringify({ ...alert, run: 'night' })}\n{"no alert": "${'x'.repeat(10)}`);
  mkdirSync(at('torch'));
  for (const rank of [0, 1]) writeFileSync(at('torch', `rank${rank} ${evilFile}.json.gz`), kineto(rank));
  writeFileSync(at('torch', `other ${evilFile}.json`), `{"traceEvents": [${JSON.stringify(evil)}`);
  const spans = [zipkinSpan(1, 'CLIENT', 'a'), zipkinSpan(2, 'SERVER', 'b'), { no: evil }];
  writeFileSync(recordings.zipkin(), JSON.stringify(spans));
  const inspected = [...inspectorLogs({ format: 'v4.0', collectives: 20 }).values()].flatMap((text) => text.trimEnd().split('\n'));
  const renamed = (key: string, value: unknown): unknown =>
    ['id', 'comm_name', 'hostname', 'coll', 'p2p'].includes(key) ? `${evil} ${value}` : value;
  writeFileSync(recordings.inspector(), [...inspected.map((line) => JSON.stringify(JSON.parse(line, renamed))), evil].join('\n'));
  const timeline = JSON.parse(timelineOf(pipelineJob({ seed: 11, stages: 2, replicas: 2 }).csv)) as Record<string, unknown>[];
  writeFileSync(
    recordings.ndtimeline(),
    JSON.stringify(timeline.map((one) => ('dur' in one ? { ...one, args: { ...(one.args as object), [evil]: evil } } : one))),
  );
  writeFileSync(recordings['no trace'](), `{"traceEvents": [{"name": "${evilFile.replaceAll(/\p{C}/gu, '')}" \u001b[31m`);
  const merged = await runLine(['merge', at('torch'), '-o', recordings.pftrace()]);
  if (merged.code !== 0) throw new Error(merged.stderr);
  const old = new Date(Date.now() - 30 * 24 * 3600 * 1000);
  utimesSync(store(), old, old);
  foreign = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://x');
    if (pathname.startsWith('/refuse')) response.writeHead(409).end(JSON.stringify({ error: evil, message: evil }));
    else response.writeHead(pathname in answers ? 200 : 404).end(JSON.stringify(answers[pathname] ?? { message: evil }));
  });
  await new Promise<void>((resolve) => foreign.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(foreign.address() as AddressInfo).port}`;
  refusing = `${url}/refuse`;
});
afterAll(() => {
  foreign?.close();
  rmSync(directory, { recursive: true });
});

it('there is a case for every command of the program', async () => {
  const { stdout } = await runLine(['--help']);
  const listed = [...stdout.slice(stdout.indexOf('Commands:')).matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name as string);
  expect(Object.keys(commands).sort()).toEqual([...new Set(listed)].filter((name) => name !== 'help' && name !== 'ranktrace').sort());
});

describe('a hostile name is text on stdout and stderr', () => {
  it.each(Object.keys(commands))('ranktrace %s', async (name) => {
    await commands[name]?.();
    // Words that commander itself quotes.
    for (const args of [
      [name, `--${evil}`],
      [name, 'x', 'y', evil, `--bad ${evil}`],
    ])
      expectHarmless(await runLine(args), `${name}: usage`);
  });

  it('of an unknown command', async () => expectHarmless(await runLine([evil]), 'unknown command'));
});
