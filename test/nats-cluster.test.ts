// deploy/nats-cluster.conf with the access from deploy/make-access.sh: ranks on other network hosts ship over TLS, each run under its own
// user, and a user has only the permissions that its part needs.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { batchSubject, clockSubject, controlSubject, rankInbox, runInbox, streamName } from '@ranktrace/protocol';
import { connect, type NatsConnection } from 'nats';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type NatsCluster, startNatsCluster } from './setup/nats-server.ts';
import { openNetwork } from './setup/network-namespaces.ts';
import { countable } from './setup/rank-programs.ts';
import { commandPath, repository, runCommand, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-nats-cluster-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let server: NatsCluster;
beforeAll(async () => {
  // Ranks on other hosts know it by the name of the network's root, whichever network the process is in.
  server = await startNatsCluster({ names: ['broker.test', '127.0.0.1', `198.18.${process.pid % 256}.1`], runs: ['night', 'other'] });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Trust of a plain client, whose own check supports no addresses. */
const tls = () => ({ caFile: join(server.access, 'ca.pem'), servername: 'broker.test' });

/** A client with the credentials of a user; its inbox is the given subject. */
function client(user: string, inboxPrefix: string): Promise<NatsConnection> {
  const { RANKTRACE_NATS_USER: name, RANKTRACE_NATS_PASS: pass } = server.environment(user);
  return connect({ servers: server.url, user: name as string, pass: pass as string, tls: tls(), inboxPrefix });
}

const ofRun = (run: string): Promise<NatsConnection> => client(`run.${run}`, rankInbox(run, 0));

/** Resolves with the server's refusal of a subscription, or `permitted`. */
async function subscribing(connection: NatsConnection, subject: string): Promise<string> {
  const refused = new Promise<string>((resolve) => {
    connection.subscribe(subject, { callback: (error) => error && resolve(error.message) });
  });
  // The server answers in order: once the second flush is answered, any refusal has been read.
  const taken = connection
    .flush()
    .then(() => connection.flush())
    .then(() => 'permitted');
  return (await Promise.race([refused, taken])).toLowerCase();
}

/** Resolves with `permissions violation` where the server refuses a message, or `permitted`. */
async function publishing(connection: NatsConnection, subject: string, reply?: string): Promise<string> {
  const refused = (async () => {
    for await (const { permissionContext } of connection.status())
      if (permissionContext?.operation === 'publish' && permissionContext.subject === subject) return 'permissions violation';
    return 'closed';
  })();
  connection.publish(subject, '{}', reply === undefined ? {} : { reply });
  const taken = connection
    .flush()
    .then(() => connection.flush())
    .then(() => 'permitted');
  return await Promise.race([refused, taken]);
}

test('ranks on other hosts ship over TLS with the credentials of their run, and nothing is lost', async (context) => {
  const at = { thereMs: 0.1, backMs: 0.1, jitterMs: 0 };
  const opened = openNetwork({ 'node-a': at, 'node-b': at });
  if (!('hosts' in opened)) {
    console.warn(`${context.task.name}: not tested here, for ${opened.reason}`);
    context.task.meta.impossibleHere = opened.reason;
    return context.skip(opened.reason);
  }
  using network = opened;
  const out = join(directory, 'out');
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--nats', server.url, '--out', out], server.environment('aggregator'));
  try {
    await service.said('listening on');
    const ranks = network.hosts.map((host, rank) =>
      host.start(['test/programs/steps.mjs', '200', '2'], {
        ...countable,
        ...server.environment('run.night', network.root),
        RANK: `${rank}`,
        WORLD_SIZE: '2',
        RANKTRACE_SPOOL_DIRECTORY: join(directory, `spool-${rank}`),
      }),
    );
    for (const { code, output } of await Promise.all(ranks.map((rank) => rank.ended))) {
      expect(code, output).toBe(0);
      expect(output).not.toMatch(/permit|refused|lost/);
    }
    await service.said('run night:');
    const { processes, findings, events } = await readRun(join(out, 'night'), 'night');
    expect(processes.map(({ rank, alignment }) => [rank, alignment.method === 'unaligned'])).toEqual([
      [0, false],
      [1, false],
    ]);
    expect(findings).toEqual([]);
    expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(400);
    expect(service.output()).not.toMatch(/permission/i);
  } finally {
    service.child.kill('SIGINT');
    await service.ended;
  }
});

test("the README's lines for a cluster, as typed, are a run that is whole", async (context) => {
  const opened = openNetwork({ broker: { thereMs: 0.1, backMs: 0.1, jitterMs: 0 } });
  if (!('hosts' in opened)) {
    console.warn(`${context.task.name}: not tested here, for ${opened.reason}`);
    context.task.meta.impossibleHere = opened.reason;
    return context.skip(opened.reason);
  }
  // A network host of its own, because the lines name no ports: 4222 and 7400 are free there.
  using network = opened;
  const clone = join(directory, 'clone');
  cpSync(join(repository, 'deploy'), join(clone, 'deploy'), {
    recursive: true,
    filter: (path) => !/\/(access|ranktrace-nats)$/.test(path),
  });
  const programs = {
    'node_modules/.bin/ranktrace': `exec '${process.execPath}' '${commandPath}' "$@"`,
    'bin/srun': 'for RANK in 0 1; do RANK=$RANK WORLD_SIZE=2 "$@" & done; wait',
  };
  for (const [path, text] of Object.entries(programs)) {
    mkdirSync(join(clone, dirname(path)), { recursive: true });
    writeFileSync(join(clone, path), `#!/usr/bin/env bash\n${text}\n`, { mode: 0o755 });
  }
  const [access = '', nats = '', serve = '', train = '', ...more] =
    /^On a cluster,[^`]*```sh\n([\s\S]*?)\n```/m
      .exec(readFileSync(join(repository, 'README.md'), 'utf8'))?.[1]
      ?.replaceAll(/ +#.*$/gm, '')
      .split('\n') ?? [];
  expect(more).toEqual([]);
  const listens = (port: number): string => `until (: < /dev/tcp/127.0.0.1/${port}) 2> /dev/null; do sleep 0.1; done`;
  const script = [
    `cd '${clone}'; PATH="$PWD/bin:$PATH"`,
    'trap "trap : TERM; kill 0; wait" EXIT',
    access.replace('BROKER', '127.0.0.1'),
    `${nats} &`,
    listens(4222),
    `${serve} 2> serve.log &`,
    listens(7400),
    train.replace('node train.mjs', `node '${join(repository, 'test/programs/steps.mjs')}' 100 2`),
    'until grep -q "run night-42:" serve.log; do sleep 0.1; done',
    'cat serve.log; echo all lines ran',
  ].join('\n');
  const bash = "require('node:child_process').spawn('bash', ['-ec', process.argv[1]], { stdio: 'inherit', detached: true })";
  const spool = join(directory, 'spool-readme');
  const job = network.hosts[0]?.start(['-e', bash, script], {
    ...countable,
    RANKTRACE_SPOOL_DIRECTORY: spool,
  });
  const { output } = (await job?.ended) ?? { output: '' };
  expect(output).toContain('all lines ran');
  const run = await readRun(join(clone, 'runs/night-42'), 'night-42');
  expect(run.findings).toEqual([]);
  expect(run.events.filter(({ kind }) => kind === 'step')).toHaveLength(200);
});

test('a rank can neither ship for another run nor read its control messages and answers', async () => {
  const rank = await ofRun('other');
  for (const subject of [batchSubject('night', 0), clockSubject('night'), controlSubject('night'), controlSubject('other')])
    expect([subject, await publishing(rank, subject)]).toEqual([subject, 'permissions violation']);
  for (const subject of [`$JS.API.STREAM.PURGE.${streamName}`, `$JS.API.STREAM.DELETE.${streamName}`, '$SYS.REQ.SERVER.PING'])
    expect([subject, await publishing(rank, subject)]).toEqual([subject, 'permissions violation']);
  const others = [
    controlSubject('night'),
    `${runInbox('night')}.>`,
    `${rankInbox('night', 0)}.>`,
    'ranktrace.v1.*.inbox.>',
    'ranktrace.v1.*.control',
    'ranktrace.inbox.>',
    '_INBOX.>',
    '>',
  ];
  for (const subject of [...others, batchSubject('night', 0), 'ranktrace.v1.*.batch.*', batchSubject('other', 0), clockSubject('other')])
    expect([subject, await subscribing(rank, subject)]).toEqual([subject, expect.stringContaining('permissions violation')]);
  expect(await publishing(rank, clockSubject('other'))).toBe('permitted');
  for (const subject of [controlSubject('other'), `${rankInbox('other', 0)}.>`]) expect(await subscribing(rank, subject)).toBe('permitted');
  await rank.close();
});

test('readers hear alerts and change nothing, aggregators cannot ship', async () => {
  const [reader, aggregator] = [await client('reader', 'nothing'), await client('aggregator', 'ranktrace.inbox')];
  const alert = new Promise<string>((resolve) => {
    reader.subscribe('ranktrace.v1.*.alert', { callback: (_error, message) => resolve(message.string()) });
  });
  await reader.flush();
  aggregator.publish('ranktrace.v1.night.alert', 'slow');
  expect(await alert).toBe('slow');
  for (const subject of [
    'ranktrace.v1.night.alert',
    batchSubject('night', 0),
    controlSubject('night'),
    `$JS.API.STREAM.INFO.${streamName}`,
  ])
    expect([subject, await publishing(reader, subject)]).toEqual([subject, 'permissions violation']);
  for (const subject of [controlSubject('night'), batchSubject('night', 0), '>'])
    expect([subject, await subscribing(reader, subject)]).toEqual([subject, expect.stringContaining('permissions violation')]);
  for (const subject of [batchSubject('night', 0), `$JS.API.STREAM.DELETE.${streamName}`])
    expect([subject, await publishing(aggregator, subject)]).toEqual([subject, 'permissions violation']);
  for (const subject of [controlSubject('night'), `${runInbox('night')}.x`])
    expect([subject, await publishing(aggregator, subject)]).toEqual([subject, 'permitted']);
  await reader.close();
  await aggregator.close();
});

test("a rank of Python ships with its run's user over TLS, without a word", async () => {
  const aggregator = await client('aggregator', 'ranktrace.inbox');
  const manager = await aggregator.jetstreamManager();
  // An aggregator makes these at its first start.
  await manager.streams.info(streamName).catch(() => manager.streams.add({ name: streamName, subjects: ['ranktrace.v1.*.batch.*'] }));
  await aggregator.close();
  const program = `
import sys, time
sys.path.insert(0, sys.argv[1])
import ranktrace
with ranktrace.profile() as prof:
    for step in range(30):
        time.sleep(0.02)
        prof.step()
`;
  const { status, stdout, stderr } = spawnSync(process.env.PYTHON_BIN ?? 'python3', ['-c', program, join(repository, 'clients/python')], {
    encoding: 'utf8',
    env: {
      ...process.env,
      ...server.environment('run.other'),
      ...{ RANK: '0', WORLD_SIZE: '1', RANKTRACE_SPOOL_DIRECTORY: join(directory, 'python'), RANKTRACE_EXIT_DEADLINE_MS: '60000' },
    },
  });
  expect([status, stdout, stderr]).toEqual([0, '', '']);
  // A life whose batches are all acknowledged leaves nothing.
  expect(readdirSync(join(directory, 'python'), { recursive: true }).filter((path) => /\.seg$/.test(String(path)))).toEqual([]);
});

test('a wrong password, no password and an unknown authority are one clear line', async () => {
  const aggregator = server.environment('aggregator');
  const { RANKTRACE_NATS_TLS_CA: _, ...withoutAuthority } = aggregator;
  const { RANKTRACE_NATS_USER: _user, RANKTRACE_NATS_PASS: _pass, ...withoutUser } = aggregator;
  let attempts = 0;
  const serve = (environment: Record<string, string>, url = server.url) =>
    runCommand(['serve', '--listen', '127.0.0.1:0', '--nats', url, '--out', join(directory, `refused-${attempts++}`)], environment);
  const refused = `ranktrace: Cannot connect to NATS at ${server.url}: it refused the credentials`;
  const [wrong, none, ...strangers] = await Promise.all([
    serve({ ...aggregator, RANKTRACE_NATS_PASS: 'wrong' }),
    serve(withoutUser),
    serve(withoutAuthority),
    // The server is reachable there, too, but its certificate does not cover this address.
    serve(aggregator, `tls://127.0.0.2:${server.port}`),
  ]);
  for (const { code, stderr } of [wrong, none]) {
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining(refused)]);
    expect(stderr).toContain('RANKTRACE_NATS_');
    expect(stderr).not.toContain('wrong');
  }
  for (const { code, stderr } of strangers) {
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([expect.stringMatching(/TLS certificate is not trusted.*RANKTRACE_NATS_TLS_CA/)]);
  }

  const rank = { ...server.environment('run.night'), RANKTRACE_EXIT_DEADLINE_MS: '0', RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool') };
  const enough = join(directory, 'enough');
  const refusedRank = startProgram(process.execPath, ['test/programs/steps-until.mjs', enough, '5'], {
    ...{ cwd: repository, ownGroup: false },
    env: { ...process.env, RANK: '0', WORLD_SIZE: '1', ...rank, RANKTRACE_NATS_PASS: 'wrong' },
  });
  await refusedRank.said('refused the credentials');
  writeFileSync(enough, '');
  expect((await refusedRank.ended).code).toBe(0);
  expect(refusedRank.output().match(/refused the credentials/g)).toHaveLength(1);
  expect(refusedRank.output()).not.toContain('wrong');
});

test('a run that is allowed while the server runs is let in, one that is not is kept out', async () => {
  await expect(connect({ servers: server.url, user: 'run.late', pass: 'guess', tls: tls() })).rejects.toThrow(/authorization/i);
  const before = await ofRun('night');
  await server.allow('late');
  const late = await ofRun('late');
  expect(await publishing(late, clockSubject('late'))).toBe('permitted');
  expect(await publishing(before, clockSubject('night'))).toBe('permitted');
  await late.close();
  await before.close();
});
