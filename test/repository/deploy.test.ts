// Files of deploy/ name existing variables, options, files, ports and services; and the programs that read them accept them.

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkConfig } from '@ranktrace/aggregator';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { optionVariables } from '../../packages/sdk/src/model/options.ts';
import { exists, filesBelow, read, repository } from './source-files.ts';

const files = filesBelow('deploy').filter((path) => !path.startsWith('deploy/access/') && !path.startsWith('deploy/ranktrace-nats/'));

/** deploy/ as it is after `make-access.sh broker.example,nats night-42`. */
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-deploy-'));
const made = join(directory, 'deploy');
afterAll(() => rmSync(directory, { recursive: true }));
beforeAll(() => {
  for (const path of files) cpSync(join(repository, path), join(directory, path));
  execFileSync(join(made, 'make-access.sh'), ['broker.example,nats', 'night-42'], { stdio: ['ignore', 'ignore', 'inherit'] });
});

/** Exit code and all output. */
function run(program: string, args: readonly string[], cwd = made): { code: number | null; said: string } {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', cwd });
  return { code: status, said: `${stdout}${stderr}${error?.message ?? ''}` };
}

interface ComposeService {
  readonly image: string;
  readonly command?: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly env_file?: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly depends_on?: object;
}
const compose = parse(read('deploy/compose.yml')) as { services: Record<string, ComposeService>; volumes: object };
const services = Object.entries(compose.services);
/** Files of the checkout that a service mounts, by their path in its container. */
const mountsOf = (service: string): Map<string, string> =>
  new Map(
    (compose.services[service]?.volumes ?? []).flatMap((volume) => {
      const [from = '', to = ''] = volume.split(':');
      return from.startsWith('./') ? [[to, from.slice(2)] as const] : [];
    }),
  );

// biome-ignore lint/suspicious/noExplicitAny: manifests have the shape that Kubernetes gives them.
type Manifest = any;
const manifests: Manifest[] = ['nats', 'aggregator', 'training-job', 'agent'].flatMap((name) =>
  parseAllDocuments(read(`deploy/kubernetes/${name}.yml`)).map((document) => document.toJS()),
);
const kustomization = parse(read('deploy/kustomization.yml')) as {
  readonly resources: readonly string[];
  readonly configMapGenerator: readonly { readonly name: string; readonly files: readonly string[] }[];
  readonly secretGenerator: readonly { readonly name: string; readonly files?: readonly string[]; readonly envs?: readonly string[] }[];
};
const podsOf = ({ spec }: Manifest): Manifest => spec?.template?.spec;
const workloads = manifests.filter((manifest) => podsOf(manifest) !== undefined);

describe('what deploy/ names', () => {
  test('variables are those of the SDK, the command, or its own', () => {
    const command = filesBelow('packages/cli/src').map(read).join('');
    const known = new Set([...Object.values(optionVariables), ...(command.match(/\bRANKTRACE_[A-Z][A-Z_]*[A-Z]\b/g) ?? [])]);
    // The directory of make-access.sh, and the variable that may give a configuration of NATS its store.
    for (const own of ['RANKTRACE_ACCESS', 'RANKTRACE_NATS_STORE']) known.add(own);
    const named = files.flatMap((path) => (read(path).match(/\bRANKTRACE_[A-Z][A-Z_]*[A-Z]\b/g) ?? []).map((name) => `${path}: ${name}`));
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((name) => !known.has(name.split(': ')[1] as string))).toEqual([]);
  });

  test('commands and options are those of the program', () => {
    const lists = [
      ...services.map(([, { image, command = [] }]) => (image.startsWith('ranktrace:') ? command : [])),
      ...workloads.flatMap((manifest) => podsOf(manifest).containers.map(({ args = [] }: Manifest) => args as string[])),
      (JSON.parse(/^CMD (\[.*\])$/m.exec(read('deploy/Dockerfile'))?.[1] ?? '[]') as string[]) ?? [],
      ...files.flatMap((path) =>
        [
          ...read(path).matchAll(/(?:^|[\s/`])ranktrace ((?:run|serve|report|merge|doctor|alerts|capture|top|view|agent)\b[^\n#|&`]*)/gm),
        ].map(([, line = '']) => line.split(' -- ')[0]?.split(/\s+/)),
      ),
    ].filter((list) => list !== undefined && list.length > 0) as string[][];
    expect(lists.length).toBeGreaterThan(6);
    for (const [command = '', ...args] of lists) {
      const help =
        read('docs/command-line.md')
          .split(/^## /m)
          .find((part) => part.startsWith(`ranktrace ${command}\n`)) ?? '';
      const options = args.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.replace(/["',)].*$/, ''));
      expect([command, options.filter((option) => !help.includes(`${option} `) && !help.includes(`${option}\n`))]).toEqual([command, []]);
    }
  });

  test('images are pinned, and the same everywhere', () => {
    const images = [
      ...services.map(([, { image }]) => image),
      ...workloads.flatMap((manifest) => podsOf(manifest).containers.map(({ image }: Manifest) => image as string)),
      ...[...read('deploy/Dockerfile').matchAll(/^FROM (\S+)/gm)].map(([, image = '']) => image),
    ];
    expect(images.filter((image) => !/:v?\d[\w.-]*$/.test(image))).toEqual([]);
    const tags = new Map<string, Set<string>>();
    for (const image of images) {
      const [name = '', tag = ''] = image.replace('registry.example/', '').split(':');
      tags.set(name, (tags.get(name) ?? new Set()).add(tag));
    }
    expect([...tags].filter(([, found]) => found.size > 1)).toEqual([]);
    const { version } = JSON.parse(read('packages/cli/package.json')) as { version: string };
    expect([...(tags.get('ranktrace') ?? [])]).toEqual([version]);
  });

  test('README says a line about each file', () => {
    const page = read('deploy/README.md');
    const ofFolders = (path: string): string => path.replace(/^(deploy\/grafana)\/.*/, '$1/');
    expect(files.map(ofFolders).filter((path) => path !== 'deploy/README.md' && !page.includes(path.slice('deploy/'.length)))).toEqual([]);
  });
});

describe('deploy/nats.conf, deploy/nats-cluster.conf', () => {
  test.for(['nats.conf', 'nats-cluster.conf'])('%s is what nats-server takes', (name) => {
    const { code, said } = run(process.env.NATS_SERVER_BIN ?? 'nats-server', ['-c', name, '-t']);
    expect([code, said]).toEqual([0, expect.stringContaining('is valid')]);
  });
});

describe('deploy/make-access.sh', () => {
  test('keeps what is there, adds a run, and shows nobody but its owner a secret', () => {
    const before = readFileSync(join(made, 'access/run.night-42.env'), 'utf8');
    expect(run('./make-access.sh', ['broker.example,nats', 'next', '--all-runs']).code).toBe(0);
    expect(readFileSync(join(made, 'access/run.night-42.env'), 'utf8')).toBe(before);
    const users = readFileSync(join(made, 'access/users.conf'), 'utf8');
    expect([...users.matchAll(/user: "([^"]+)"/g)].map(([, name]) => name)).toEqual([
      'aggregator',
      'all-runs',
      'reader',
      'run.next',
      'run.night-42',
    ]);
    expect(readFileSync(join(made, 'access/run.next.env'), 'utf8')).toMatch(
      /^RANKTRACE_URL=tls:\/\/broker\.example:4222\nRANKTRACE_RUN=next$/m,
    );
    const { said } = run('find', ['access', '-type', 'f', '-perm', '/077']);
    expect(said.trim().split('\n').sort()).toEqual(['access/ca.pem', 'access/server.pem']);
  });

  test('has a certificate for every name that it is given, or says that the one that is there has not', () => {
    const { code, said } = run('./make-access.sh', ['broker.example,other.example', 'night-42']);
    expect([code, said.trim().split('\n')]).toEqual([2, [expect.stringMatching(/certificate in .* is not for "other\.example": remove/)]]);
    // One of its names is enough, as when a run is added.
    expect(run('./make-access.sh', ['nats', 'night-42']).code).toBe(0);
    const environment = { ...process.env, RANKTRACE_ACCESS: join(directory, 'addresses') };
    const make = (names: string) => spawnSync(join(made, 'make-access.sh'), [names], { env: environment, encoding: 'utf8' });
    expect(make('10.0.0.7,fd00::7').status).toBe(0);
    expect([make('fd00::7').status, make('10.0.0.8').status]).toEqual([0, 2]);
  });

  test.for([
    [['broker example', 'a'], /BROKER must be host names or addresses with commas between, got "broker example"/],
    [['broker', 'a.b'], /RUN must be 1 to 64 letters, digits, "_" or "-" and not begin with "-", got "a\.b"/],
    [['broker', '*'], /RUN must be .* got "\*"/],
    [[], /name the host of NATS/],
  ] as const)('refuses %j in one line', ([args, message]) => {
    const { code, said } = run('./make-access.sh', args);
    expect([code, said.trim().split('\n')]).toEqual([2, [expect.stringMatching(message)]]);
  });
});

describe('deploy/compose.yml', () => {
  test('mounts files that there are, or that make-access.sh makes', () => {
    const named = services.flatMap(([name, { env_file, build }]) => [
      ...[...mountsOf(name).values()],
      ...(env_file === undefined ? [] : [env_file]),
      ...(build === undefined ? [] : [join(build.context, build.dockerfile)]),
    ]);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((path) => !existsSync(join(made, path)))).toEqual([]);
  });

  test('lets nobody choose the password of Grafana who comes first', () => {
    const file = compose.services.grafana?.env_file ?? '';
    expect(readFileSync(join(made, file), 'utf8')).toMatch(/^GF_SECURITY_ADMIN_PASSWORD=[0-9a-f]{48}\n$/);
  });

  test('declares its volumes, and reaches services by their names and ports', () => {
    const volumes = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0] as string));
    expect(volumes.filter((name) => !name.startsWith('./')).sort()).toEqual(Object.keys(compose.volumes).sort());
    const addresses = ['compose.yml', 'alerts.yml', 'prometheus.yml', 'grafana/datasources.yml'].flatMap((name) =>
      [...read(`deploy/${name}`).matchAll(/(?:\/\/|")(nats|aggregator|prometheus|alertmanager|grafana):(\d+)\b/g)].map(
        ([, host, port]) => `${host}:${port}`,
      ),
    );
    const listening = services.flatMap(([name, { ports = [] }]) => ports.map((port) => `${name}:${port.split(':').at(-1)}`));
    expect(new Set(addresses).size).toBeGreaterThan(3);
    expect(addresses.filter((address) => !listening.includes(address))).toEqual([]);
  });

  test('what has no password is open to its own host alone', () => {
    for (const name of ['prometheus', 'alertmanager']) {
      expect(compose.services[name]?.ports?.every((port) => port.startsWith('127.0.0.1:'))).toBe(true);
    }
  });

  test('gives Prometheus, Alertmanager and Grafana what they take', () => {
    const there = (service: string, text: string): string =>
      [...mountsOf(service)].reduce((all, [to, from]) => all.replaceAll(to, join(made, from)), text);
    const config = join(directory, 'prometheus.yml');
    writeFileSync(config, there('prometheus', read('deploy/prometheus.yml')));
    const prometheus = run(process.env.PROMTOOL_BIN ?? 'promtool', ['check', 'config', config]);
    expect([prometheus.code, prometheus.said]).toEqual([0, expect.stringContaining('1 rule files found')]);
    expect(readFileSync(config, 'utf8')).toContain(join(made, 'access/read-token'));
    const alertmanager = run('amtool', ['check-config', 'alertmanager.yml']);
    expect([alertmanager.code, alertmanager.said]).toEqual([0, expect.stringContaining('SUCCESS')]);
    const dashboards = parse(read('deploy/grafana/dashboards.yml')) as { providers: readonly { options: { path: string } }[] };
    expect([...mountsOf('grafana').keys()]).toContain(`${dashboards.providers[0]?.options.path}/ranktrace.json`);
  });

  test.for(['alerts.yml', 'kubernetes/alerts.yml'])('%s is what serve takes', async (name) => {
    expect(await checkConfig(join(repository, 'deploy', name))).not.toHaveProperty('errors');
  });
});

describe('deploy/kubernetes', () => {
  const named = (kind: string, name: string): Manifest =>
    manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);

  test('has every file, ConfigMap and Secret that is named, and all that is there is used', () => {
    const generators = [...kustomization.configMapGenerator, ...kustomization.secretGenerator] as Manifest[];
    const paths = generators.flatMap(({ files = [], envs = [] }) =>
      [...files, ...envs].map((file: string) => file.split('=').at(-1) as string),
    );
    expect([...kustomization.resources, ...paths].filter((path) => !existsSync(join(made, path)))).toEqual([]);
    const used = new Set<string>();
    for (const { containers, volumes = [] } of workloads.map(podsOf)) {
      for (const { configMap, secret } of volumes) {
        if (configMap) used.add(`config ${configMap.name}`);
        if (secret) used.add(`secret ${secret.secretName}`);
      }
      for (const { envFrom = [] } of containers) for (const { secretRef } of envFrom) used.add(`secret ${secretRef.name}`);
    }
    const generated = [
      ...kustomization.configMapGenerator.map(({ name }) => `config ${name}`),
      ...kustomization.secretGenerator.map(({ name }) => `secret ${name}`),
    ];
    expect([...used].sort()).toEqual(generated.sort());
  });

  test('the agent shares a folder with ranks, and has no right but those that it needs', () => {
    const agent = named('DaemonSet', 'ranktrace-agent');
    const { hostPID, hostNetwork, containers, volumes } = podsOf(agent);
    expect([hostPID, hostNetwork]).toEqual([true, undefined]);
    const [{ args, securityContext, volumeMounts }] = containers;
    const folder = args[args.indexOf('--socket-dir') + 1];
    const shared = volumes.find(({ hostPath }: Manifest) => hostPath !== undefined);
    expect(volumeMounts.find(({ name }: Manifest) => name === shared.name).mountPath).toBe(folder);
    // A path is the same for ranks and agent: the one is told by the other where to write.
    expect(shared.hostPath.path).toBe(folder);
    for (const { securityContext: own } of [...containers, ...podsOf(agent).initContainers])
      expect(own).toMatchObject({ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } });
    expect(securityContext.capabilities.add).toEqual(['SYS_PTRACE', 'CHOWN', 'DAC_OVERRIDE']);
  });

  test('mounts volumes that it has, and runs without rights', () => {
    for (const workload of workloads) {
      const { containers, volumes = [] } = podsOf(workload);
      const claims = workload.spec.volumeClaimTemplates ?? [];
      const all = [...volumes.map(({ name }: Manifest) => name), ...claims.map(({ metadata }: Manifest) => metadata.name)];
      const mounted = containers.flatMap(({ volumeMounts = [] }: Manifest) => volumeMounts.map(({ name }: Manifest) => name));
      expect(new Set(mounted)).toEqual(new Set(all));
    }
    for (const name of ['ranktrace', 'ranktrace-nats']) {
      const pod = podsOf(named('StatefulSet', name));
      expect(pod.securityContext.runAsNonRoot).toBe(true);
      expect(pod.containers[0].securityContext).toMatchObject({ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true });
    }
  });

  test('services select their pods, by ports that those have', () => {
    for (const { metadata, spec } of manifests.filter(({ kind }) => kind === 'Service')) {
      const chosen = workloads.filter((workload) => workload.spec.template.metadata.labels.app === spec.selector.app);
      expect([metadata.name, chosen.length]).toEqual([metadata.name, 1]);
      const ports = podsOf(chosen[0]).containers.flatMap((container: Manifest) =>
        (container.ports ?? []).map((port: Manifest) => port.name),
      );
      for (const { targetPort } of spec.ports ?? []) expect(ports).toContain(targetPort);
    }
    const args = podsOf(named('StatefulSet', 'ranktrace')).containers[0].args as string[];
    expect(args[args.indexOf('--nats') + 1]).toBe(`tls://ranktrace-nats:${named('Service', 'ranktrace-nats').spec.ports[0].port}`);
    expect(args[args.indexOf('--listen') + 1]).toBe(
      `0.0.0.0:${podsOf(named('StatefulSet', 'ranktrace')).containers[0].ports[0].containerPort}`,
    );
  });

  test('numbers ranks by the index of the pod, and counts all of them', () => {
    const job = named('Job', 'ranktrace-training');
    const env: Manifest[] = podsOf(job).containers[0].env;
    const variable = (name: string): Manifest => env.find((one) => one.name === name);
    expect(job.spec.completionMode).toBe('Indexed');
    expect(variable('RANK').valueFrom.fieldRef.fieldPath).toBe("metadata.annotations['batch.kubernetes.io/job-completion-index']");
    expect([job.spec.parallelism, Number(variable('WORLD_SIZE').value)]).toEqual([job.spec.completions, job.spec.completions]);
    expect(variable('MASTER_ADDR').value).toBe(`${job.metadata.name}-0.${podsOf(job).subdomain}`);
    expect(named('Service', podsOf(job).subdomain).spec.clusterIP).toBe('None');
    // Only the files of make-access.sh for the run of this Secret.
    expect(kustomization.secretGenerator.find(({ name }) => name === 'ranktrace-run')?.envs).toEqual(['access/run.night-42.env']);
  });
});

describe('deploy/systemd', () => {
  test.for(filesBelow('deploy/systemd'))('%s starts what there is, as a user of its own', (path) => {
    const text = read(path);
    const value = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1] ?? '';
    // The agent reads the environment of all users' ranks, and has the rights for that alone.
    const [user, state] = path.endsWith('-agent.service') ? ['', 'ranktrace-agent'] : ['ranktrace', 'ranktrace'];
    const home = `/var/lib/${state}`;
    expect([value('User'), value('StateDirectory'), value('WorkingDirectory')]).toEqual([user, state, home]);
    if (user === '') expect(value('CapabilityBoundingSet')).toMatch(/^CAP_SYS_PTRACE /);
    for (const [, copied = ''] of text.matchAll(/\bcp ((?:deploy\/\S+ )+)/g)) {
      expect(
        copied
          .trim()
          .split(' ')
          .filter((file) => !exists(file)),
      ).toEqual([]);
    }
    // The package that `npm run release` makes here: it is on no registry.
    const { version } = JSON.parse(read('packages/cli/package.json')) as { version: string };
    for (const [, installed] of text.matchAll(/npm install --prefix \S+ (\S+)/g)) expect(installed).toBe(`./dist/ranktrace-${version}.tgz`);
    const named = [value('EnvironmentFile'), ...(value('ExecStart').match(/\S+\.(conf|yml)\b/g) ?? [])].filter((name) => name !== '');
    for (const name of named) {
      const file = name.replace(`${home}/`, '');
      // Either the header copies it there, or make-access.sh makes it there.
      expect([file, text.includes(`/${file} `) || existsSync(join(made, file))]).toEqual([file, true]);
    }
  });
});

describe('scripts', () => {
  test.for(files.filter((path) => /\.(sh|sbatch)$/.test(path)))('%s is what bash takes, and can be started', (path) => {
    expect(run('bash', ['-n', join(repository, path)])).toEqual({ code: 0, said: '' });
    expect(run('test', ['-x', join(repository, path)]).code).toBe(0);
  });
});
