// The command line: names, options and their help, in one file, so that words and defaults of all commands agree. Each command stands in its own file,
// which is loaded when it is called: help, and errors of usage, load none.

import { AgentError } from '@ranktrace/agent';
import { AggregatorError } from '@ranktrace/aggregator';
import { limits, ProtocolError } from '@ranktrace/protocol';
import { SdkError } from '@ranktrace/sdk/shipping';
import { TraceError } from '@ranktrace/trace';
import { sensitivities } from '@ranktrace/trace/detect';
import { Command, CommanderError, Option } from 'commander';
import { memoryOption } from './inputs/read-memory.ts';
import { accessOptions, clientToken, serviceTokens, tlsFiles } from './options/access-options.ts';
import { natsOptions, streamOptions } from './options/nats-options.ts';
import { checkFormats, differenceSorts, exportFormats, tableSorts } from './options/option-choices.ts';
import {
  changePercent,
  listed,
  percent,
  positive,
  rankList,
  rowLimit,
  runName,
  stepRange,
  traceTimeIn,
  whole,
  windowSeconds,
} from './options/option-values.ts';
import { retentionOf, retentionOptions } from './options/retention-options.ts';
import { simulateOptions } from './options/simulate-options.ts';
import { CliError } from './terminal/errors.ts';
import { Interrupted } from './terminal/interrupt.ts';
import { complain, print, say } from './terminal/output.ts';

/** Runs one command line; returns the exit code: 0 ok, 1 finding or failed check, 2 bad usage or input. Never throws. */
export async function runProgram(argv: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  let exitCode = 0;
  const done = (code: number): void => {
    exitCode = code;
  };
  const program = new Command('ranktrace')
    .description('One cluster-wide trace from a distributed training loop.')
    .version('0.1.0')
    .exitOverride()
    // Options after a command to run belong to that command.
    .enablePositionalOptions()
    .configureOutput({ writeOut: print, writeErr: complain, outputError: sayUsage })
    .showSuggestionAfterError()
    .addHelpText('after', exitCodes);
  const out = ['--out <dir>', 'directory of the run store', 'ranktrace-out'] as const;
  const json = ['--json', 'print data instead of text'] as const;
  const noOpen = ['--no-open', 'do not open the browser'] as const;
  const whichRun = new Option('--run <name>', 'the run, where the input holds several').argParser(runName);
  const allowMixed = ['--allow-mixed', 'take torch.profiler files of several jobs as one'] as const;
  const url = [
    '--url <url>',
    'where the service listens (what to show it: RANKTRACE_READ_TOKEN or RANKTRACE_TOKEN)',
    'http://127.0.0.1:7400',
  ] as const;
  const servers = new Option('--nats <urls>', 'NATS servers with JetStream, comma-separated; credentials come from RANKTRACE_NATS_*');

  program
    .command('run')
    .description('start N ranks of a command on this host and write one trace of them all')
    .usage('[options] [--] CMD ...')
    .argument('[command...]', 'the training command; what follows it is its own')
    .passThroughOptions()
    .option('-n, --ranks <n>', 'ranks to start (default: 1, with --gpus one for each GPU)', positive(1024))
    .option('--gpus', 'one GPU a rank: each sees its own alone, by CUDA_VISIBLE_DEVICES, as number 0')
    .option('--gpu', "record the ranks' own kernels, copies and waits on GPUs, too: docs/gpu.md")
    .option('--name <run>', 'name of the run (default: run-<date>-<time>-<pid>)', runName)
    .option('--trace <file>', 'trace file: .pftrace, .json or .txt, also .gz (default: <out>/<run>/trace.pftrace)')
    .option(...out)
    .option('--config <file>', 'alert rules and outputs, as for serve: docs/alerting.md (default: no outputs)')
    .option('--view', 'serve the page of the run while it trains and after, until Ctrl-C')
    .option(...noOpen)
    .option(...json)
    .addOption(servers)
    .addHelpText(
      'after',
      `
A program that names its run itself, as in profile({ run: 'night-42' }), is followed there: --name has no effect on it.
Of several GPUs TensorFlow.js computes on the last one that it sees, whatever the rank: --gpus gives each rank its own, of those in CUDA_VISIBLE_DEVICES or
of all that nvidia-smi lists. A program that chooses its GPU by LOCAL_RANK, as PyTorch's do, goes without.`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace run --ranks 4 node train.js',
        'ranktrace run --ranks 4 --view -- node train.js --epochs 3',
        'ranktrace run --ranks 4 --config alerts.yml node train.js',
        'ranktrace run --gpus node train.js',
      ),
    )
    .action(async (command: string[], options) => {
      const { run } = await import('./commands/run.ts');
      done(await run(command, { ...options, nats: natsOptions(options.nats, environment), environment }));
    });
  const serves = program
    .command('serve')
    .description('run the aggregator as a service, with the page of its runs, until Ctrl-C')
    .option('--listen <host:port>', 'where ranks and browsers connect', '127.0.0.1:7400')
    .option(...out)
    .addOption(servers)
    .option('--config <file>', 'alert rules and outputs, YAML: docs/alerting.md (default: all rules, reported on stderr)')
    .option('--check-config', 'say whether --config is right, line by line where it is not, and start nothing');
  for (const option of [...streamOptions(), ...accessOptions(), ...retentionOptions([7 * 24 * 3600 * 1000, '7d'])])
    serves.addOption(option);
  serves
    .addHelpText('after', tokensHelp)
    .addHelpText(
      'after',
      examples(
        'ranktrace serve --listen 127.0.0.1:7400 --nats nats://localhost:4222',
        'ranktrace serve --listen 0.0.0.0:7400 --token-file tokens --tls-cert cert.pem --tls-key key.pem',
        'ranktrace serve --keep-detail 7d --keep-steps 1y --store-max 200G',
        'ranktrace serve --config alerts.yml --check-config',
      ),
    )
    .action(async (options) => {
      const { serve } = await import('./commands/serve.ts');
      done(
        await serve({
          ...options,
          token: serviceTokens(options, environment),
          tls: tlsFiles(options),
          retention: retentionOf(options),
          nats: natsOptions(options.nats, environment, options),
        }),
      );
    });
  program
    .command('top')
    .description('watch a run while it goes on: ranks, step times, phases, findings, alerts; lines of text where stdout is no terminal')
    .option(...url)
    .addOption(new Option('--run <name>', 'the run (default: the first that goes on)').argParser(runName))
    .option('--interval <seconds>', 'between two looks', positive(3600), 1)
    .option('--once', 'look once, print a line and end')
    .addHelpText(
      'after',
      `
Keys: q or Ctrl-C end it, n shows the next run, up and down scroll the ranks. NO_COLOR=1 leaves colours out.
Figures are of the last 480 steps, whatever the size of the terminal. Where hosts run ahead of their GPUs, step times are those of the GPUs, and say so.
A rank that has sent nothing for five seconds, heartbeats included, is stopped; one whose connection broke without a goodbye, as that of a killed process does, is lost.`,
    )
    .addHelpText('after', examples('ranktrace top', 'ranktrace top --url http://aggregator.example:7400 --run night-42'))
    .action(async (options) => {
      const { top } = await import('./commands/top.ts');
      done(await top({ ...options, token: clientToken('read', environment), environment }));
    });
  const views = program
    .command('view')
    .description('look at recorded runs in the browser: overview, timeline, two runs side by side; until Ctrl-C')
    .argument('<input...>', inputKinds)
    .addOption(new Option('--run <name>', 'this run of those that the run directories hold (default: all of them)').argParser(runName))
    .option(...allowMixed)
    .addOption(memoryOption())
    .option('--listen <host:port>', 'where browsers connect', '127.0.0.1:0')
    .option(...noOpen);
  for (const option of accessOptions()) views.addOption(option);
  views
    .addHelpText(
      'after',
      examples('ranktrace view ranktrace-out/night-42', 'ranktrace view rank*.json.gz', 'ranktrace view before/ after/'),
    )
    .action(async (inputs: string[], options) => {
      const { view } = await import('./commands/view.ts');
      done(await view(inputs, { ...options, token: serviceTokens(options, environment), tls: tlsFiles(options), environment }));
    });
  program
    .command('merge')
    .description('merge what ranks recorded, or the torch.profiler files of a job, into one trace; or write a trace in another format')
    .argument('<input...>', inputKinds)
    .requiredOption('-o, --output <file>', 'trace file: .pftrace, .json or .txt, each also .gz')
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .option(...json)
    .addHelpText(
      'after',
      examples('ranktrace merge ranktrace-out/night-42 -o night-42.pftrace', 'ranktrace merge rank*.json.gz -o cluster.pftrace'),
    )
    .action(async (inputs: string[], options) => {
      const { merge } = await import('./commands/merge.ts');
      done(await merge(inputs, options));
    });
  program
    .command('export')
    .description("write a run, or a part of it, for other programs: torch.profiler's files, Chrome JSON, Perfetto, collapsed stacks, CSV")
    .argument('<input...>', inputKinds)
    .addOption(new Option('--to <format>', 'format of the files').choices(exportFormats).makeOptionMandatory())
    .requiredOption(
      '-o, --output <path>',
      'a file (.gz is zipped), a directory, which ends in / or exists, or - for stdout; {rank} is the number of a rank',
    )
    .option('--steps <from-to>', 'what began in these steps, such as 300-400', stepRange)
    .option(
      '--from <time>',
      'what overlaps the time from here on, counted from the first step, as on the page: 1.5s, 300ms, 40us',
      traceTimeIn,
    )
    .option('--until <time>', 'and before this', traceTimeIn)
    .option('--ranks <list>', 'these ranks alone, such as 0-3,8', rankList)
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .option(...json)
    .addHelpText(
      'after',
      `
  kineto    a file for each rank as torch.profiler writes it, for HTA, TensorBoard and torch's own tools: rank<N>.pt.trace.json.gz in
            a directory, or the name with {rank} in it, 256 at a time; times are those of the trace, with clocks corrected
  chrome    one JSON file for chrome://tracing and others
  perfetto  one .pftrace, as merge writes it
  folded    nested spans as collapsed stacks, for FlameGraph and speedscope; self times in ns
  csv       a row for each event: kind, rank, incarnation, host, track, device, name, category, start_ns, duration_ns, step, group,
            sequence, bytes, peer_rank, value, unit, arguments (JSON). Lines end in CR LF, cells are quoted as in RFC 4180, and text
            that a spreadsheet would take for a formula has a ' before it. A collective that torch did not number has no sequence
            but its place among the arguments: fromEnd (1: the last of its file) or beforeCut (1: the last before the moment that
            ranks agreed to count from), and window (0: the rank's last file)
Times in the files are those of the trace, as with report --json: --from and --until count from the first step, which begins
at the least start_ns of the rows of kind step.
There is no Parquet: DuckDB makes it of the CSV (COPY (FROM 'run.csv.gz') TO 'run.parquet').
A file has its name only when it is whole: Ctrl-C leaves none.`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace export ranktrace-out/night-42 --to kineto -o traces/',
        'ranktrace export rank*.json.gz --to csv --steps 10-12 -o - | head',
        'ranktrace export night-42.pftrace --to folded --ranks 0 --from 2s --until 2.5s -o rank0.folded',
      ),
    )
    .action(async (inputs: string[], options) => {
      const { exportRun } = await import('./commands/export.ts');
      done(await exportRun(inputs, options));
    });
  program
    .command('report')
    .description(
      'where the time of a run went between its ranks, and who is to blame: steps, clocks, collectives, remote calls, what never ended',
    )
    .argument('<input...>', inputKinds)
    .option('--steps <from-to>', 'these steps alone, such as 300-400', stepRange)
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .option('--hta-compatible', 'figures of GPUs by the conventions of Holistic Trace Analysis (docs/gpu.md)')
    .option(...json)
    .option('--html', 'one page for a browser, with charts and tables, that needs nothing but its file')
    .option('-o, --output <file>', 'file of --html (default, and -: stdout)')
    .addHelpText(
      'after',
      `
The whole run is judged, in windows of 64 steps that begin and end where steps become longer or shorter; tables are of the
last steps since then, 256 at most. Each finding says which steps it covers. Alerts that a service stored with the run are
findings, too; where a finding says the same, it says that it was alerted about. The verdict is the most costly one of
  balanced            no rank is slower than its peers
  straggler           few ranks work longer than their peers (same stage and role), step for step
  stage_imbalance     a stage of the pipeline works longer than the others
  rotating_imbalance  in each step some rank works longer, not always the same
  cpu_contention      threads of the ranks wait for a CPU: their hosts are busy
  cluster_wide        all ranks work longer than when the run began
  long_steps          some steps are of another kind (checkpoints, evaluations, stalls) and take a large part of the time
  data_loading        getting the next batch takes a large part of the step
  network             data is on its way for a large part of the step
  host_bound          GPUs wait for a large part of the step until their hosts launch work
  communication_bound GPUs communicate for a large part of the step while nothing else runs on them
  copy_bound          GPUs copy data for a large part of the step while nothing else runs on them
  pipeline_bubble     stages of the pipeline wait for the microbatches of others for a large part of the step
  inconclusive        the recording does not show it, or clocks are not known well enough
A finding costs what steps would be shorter without it, once all others are mended: in each step that it affects, and the
same per step of the run.
With --json: verdict, findings (kind, ranks, phase, costMsPerAffectedStep, affectedSteps of comparedSteps, costMsPerStep
and shareOfStep of all of these, evidence, alerts) and blame (breakdown per rank, whose parts add up to the step;
frontier, excess, visible, whatIf, alignment). Data loss is among the findings; those of blame have steps (first, last), and
verdictSteps are those of the verdict. Moments (at, since) count from the first step, as on the page and for export --from;
with --json they are ns of the trace, in which the first step begins at firstStepNs. A collective that torch did not
number has sequence null, and its place: fromEnd (1: the last of its file) or beforeCut (1: the last before the moment
that ranks agreed to count from), and window (0: the rank's last file).`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace report ranktrace-out/night-42',
        'ranktrace report ranktrace-out/night-42 --steps 300-400',
        'ranktrace report rank*.json.gz --json | jq .findings',
        'ranktrace report rank*.json.gz --html -o report.html',
      ),
    )
    .action(async (inputs: string[], options) => {
      const { report } = await import('./commands/report.ts');
      done(await report(inputs, options));
    });
  program
    .command('table')
    .description('calls, total, self and average time per name')
    .argument('<input...>', inputKinds)
    .option(
      '--sort <key>',
      `of a run: ${tableSorts.join(', ')} (default: self); of one torch.profiler file or one rank: torch's, such as self_cpu_time_total (default), count`,
    )
    .option('--limit <n>', 'rows to print, -1 for all (default: 100, with --json all)', rowLimit)
    .option('--rank <n>', "of a run: torch's table of this rank instead of all ranks together", whole(0, 65_535))
    .option('--group-by-shape', 'of a file or one rank: a row for each name and input shapes')
    .option('--group-by-stack <n>', 'of a file or one rank: a row for each name and innermost n frames', positive(1000))
    .option(
      '--python-functions',
      'of a file or one rank: rows of Python functions too (default: as the torch did that wrote the file: 2.12 and 2.13 have them)',
    )
    .option('--no-python-functions', 'of a file or one rank: no rows of Python functions')
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .option('--json', 'print data instead of text: a list of rows, the last one the total of all')
    .addHelpText('after', example('ranktrace table ranktrace-out/night-42 --sort total --limit 20'))
    .action(async (inputs: string[], options) => {
      const { table } = await import('./commands/table.ts');
      done(await table(inputs, options));
    });
  program
    .command('dump')
    .description('print every event as a line of text')
    .argument('<input...>', inputKinds)
    .option('--batches', 'list the stored batches instead')
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .addHelpText('after', example('ranktrace dump ranktrace-out/night-42 | head'))
    .action(async (inputs: string[], options) => {
      const { dump } = await import('./commands/dump.ts');
      done(await dump(inputs, options));
    });
  program
    .command('capture')
    .description('record the next steps of a run that trains, the same ones on all ranks, and write their trace beside the run')
    .option('--seconds <s>', 'of PyTorch ranks beside an agent: a window of time instead, the same moment on all hosts', windowSeconds)
    .option('--steps <n>', 'steps to record at full detail, whatever the schedule says', positive(limits.capturedStepsMax))
    .addOption(
      new Option('--at-step <s>', 'the first of them (default: as soon as all ranks can)')
        .argParser(whole(0, limits.capturedStepMax))
        .conflicts('seconds'),
    )
    .addOption(
      new Option(
        '--last',
        'instead the last steps, and the one that runs, out of the flight recorders: of a job that hangs, too',
      ).conflicts('atStep'),
    )
    .option(...url)
    .addOption(new Option('--run <name>', 'the run, where several go on').argParser(runName))
    .option(...json)
    .addHelpText(
      'after',
      `
The service (ranktrace serve, or run) coordinates: its ranks record by step number, at the same steps. A rank that is
past a step already gives what its flight recorder still has. Ranks that are late, ended or say nothing are not waited
for; they are named, and the exit code is 1. The trace lies where the service runs: <out>/<run>/captures/.
PyTorch ranks beside an agent (ranktrace agent) record by time, from some nine seconds after the request on: they are asked every five
seconds. Give --seconds; with --steps the window is as long as so many steps were before, or two seconds where none is known.`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace capture --steps 10',
        'ranktrace capture --seconds 2 --run night-42',
        'ranktrace capture --steps 20 --last',
        'ranktrace capture --steps 5 --at-step 12000 --run night-42 --json',
      ),
    )
    .action(async (options) => {
      const { capture } = await import('./commands/capture.ts');
      done(await capture({ ...options, token: clientToken('capture', environment) }));
    });
  program
    .command('agent')
    .description('beside the PyTorch ranks of this host: send their heartbeats and counters, and record them on demand, until Ctrl-C')
    .option('--url <url>', 'where batches go: ws://HOST:PORT of ranktrace serve, or nats://HOST:PORT (default: RANKTRACE_URL)')
    .addOption(new Option('--run <name>', 'name of the run of all ranks here (default: the job of each, or its master)').argParser(runName))
    .addOption(new Option('--ranks <list>', 'these ranks alone, such as 0,8-15').argParser(rankList))
    .option('--socket-dir <dir>', 'folder of the socket, shared with containers (default: KINETO_IPC_SOCKET_DIR, or the abstract name)')
    .option('--watch <dir...>', "ship torch.profiler's files of these ranks, too, as they appear in these folders")
    .option('--nccl-ras <host:port>', "where NCCL's RAS listens, which knows of hangs (NCCL_RAS_ADDR)", 'localhost:28028')
    .option('--no-nccl-ras', 'do not ask it')
    .addHelpText(
      'after',
      `
Jobs need KINETO_USE_DAEMON=1 in their environment and no change: ranktrace capture then records all their ranks at one moment. Tokens and NATS
credentials come from RANKTRACE_TOKEN and RANKTRACE_NATS_*, as for ranks. A user's agent sees that user's ranks; root's sees all; one that a
job of Slurm started sees that job's.`,
    )
    .addHelpText(
      'after',
      examples('ranktrace agent --url ws://head:7400', 'ranktrace agent --url nats://head:4222 --run night-42 --ranks 0-7'),
    )
    .action(async (options) => {
      const { agent } = await import('./commands/agent.ts');
      done(await agent({ ...options, environment }));
    });
  program
    .command('watch')
    .description("send torch.profiler's files into a running service as they appear, each once, as its rank's detail; until Ctrl-C")
    .argument('<dir...>', 'folders into which ranks write their traces (.json, .json.gz), and the folders in them')
    .option('--url <url>', 'where batches go: ws://HOST:PORT of ranktrace serve, or nats://HOST:PORT (default: RANKTRACE_URL)')
    .addOption(new Option('--run <name>', "the run that they are of (default: the first folder's name)").argParser(runName))
    .addHelpText(
      'after',
      `
A file is read once it is complete. Its rank is in it (distributedInfo), or in its name (rank3…, worker3…), else it is 0. A restart goes on
where it stopped: what was shipped is written down beside the spool (RANKTRACE_SPOOL_DIRECTORY).`,
    )
    .addHelpText('after', examples('ranktrace watch ./log --url ws://head:7400 --run night-42'))
    .action(async (folders: string[], options) => {
      const { watch } = await import('./commands/watch.ts');
      done(await watch(folders, { ...options, environment }));
    });
  program
    .command('alerts')
    .description('list the alerts of a service that runs, or those that a run was stored with; exit with 1 while one is firing')
    .argument('[directory]', 'a stored run, or a directory of runs; default: ask the service at --url')
    .option(...url)
    .addOption(new Option('--run <name>', 'of this run alone').argParser(runName))
    .option(...json)
    .addHelpText(
      'after',
      examples('ranktrace alerts --url http://aggregator.example:7400', 'ranktrace alerts ranktrace-out/night-42 --json'),
    )
    .action(async (directory: string | undefined, options, command: Command) => {
      if (directory !== undefined && command.getOptionValueSource('url') === 'cli')
        throw new CliError('bad_usage', `alerts reads "${directory}" or asks the service at --url: give one of them`);
      const { alerts } = await import('./commands/alerts.ts');
      done(await alerts(directory, { ...options, token: directory === undefined ? clientToken('read', environment) : undefined }));
    });
  program
    .command('detect')
    .description('find lasting changes in a recorded series of step times: a .csv file of steps')
    .argument('<file>', 'lines of step,time_ms[,context][,tag] under a line with these names; also .csv.gz; - reads the standard input')
    .option('--column <what=name>', 'the column for step, time, context or tag, as in time=step_ms; may be given again', listed)
    .option('--short', 'for a few hundred steps: ready after 70 steps instead of 180, a little less sure')
    .addOption(
      new Option(
        '--min-change <percent>',
        'report no change smaller than this (default: 1.5, or what the noise of the series asks for)',
      ).argParser(changePercent),
    )
    .addOption(
      new Option('--sensitivity <level>', 'how sure a change must be: low waits longer, high reports sooner and is wrong more often')
        .choices(sensitivities)
        .default('normal'),
    )
    .option('--fail', 'exit with 1 when a regression or a drift is open at the end, or long steps take more of the time')
    .option(...json)
    .addHelpText(
      'after',
      examples(
        'ranktrace detect steps.csv',
        'ranktrace detect log.csv.gz --column time=step_ms --column tag=in_eval --fail',
        'ranktrace detect steps.csv --min-change 5% --sensitivity low',
      ),
    )
    .action(async (file: string, options) => {
      const { detect } = await import('./commands/detect.ts');
      done(await detect(file, options));
    });
  program
    .command('check')
    .description('compare the steps of a run with those of a baseline, and fail when they are longer: for pipelines')
    .argument('<input...>', `the run: ${inputKinds}`)
    .option('--baseline <input>', 'what it is compared with, of the same kinds, or a file that --save wrote; may be given again', listed)
    .addOption(
      new Option('--fail-on <percent>', 'fail when steps are so many per cent longer, or more').argParser(percent).default(0.03, '3'),
    )
    .option('--save <file>', 'write the steps of the run to a small file, a baseline that needs no store; alone or beside a comparison')
    .addOption(new Option('--format <format>', 'what is printed, text unless another is named').choices(checkFormats))
    .option('--markdown <file>', 'write the check there, too, as Markdown')
    .option('--junit <file>', 'write the check there, too, as a JUnit test report')
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .addOption(new Option('--baseline-run <name>', 'the run, where the baseline holds several').argParser(runName))
    .option(...json)
    .addHelpText(
      'after',
      `
Steps count as long as their slowest rank, warm-up is left out, and long steps, such as those with a checkpoint, are compared for themselves, by the
time that they add: the verdict is about usual steps, or about all of them where only long ones show a difference. Where hosts run ahead of their GPUs,
a step is as long as the GPUs take for it, and the verdict says so; docs/gpu.md has the rule. The verdict is one of
  slower           longer by --fail-on or more, and more than scatter explains: the exit code is 1
  probably_slower  longer by --fail-on or more, by odds of three to one, but it may be scatter; more steps would decide
  unchanged        neither longer nor shorter by --fail-on, or by less than these odds
  probably_faster  shorter by as much, by the same odds
  faster           shorter by as much, for sure
A run in which ranks failed, were lost or hung is compared by its steps before that, and it is said before the verdict.
Three steps are enough to compare, as profiling schedules record them; what so few can prove is said beside the verdict.
Runs of the same code differ by a per cent or two of their own; --fail-on is there to allow for that.`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace check ranktrace-out/pr-512 --baseline ranktrace-out/main --fail-on 3',
        'ranktrace check ranktrace-out/main --save main.json',
        'ranktrace check ranktrace-out/pr-512 --baseline main.json --junit check.xml --format markdown >> "$GITHUB_STEP_SUMMARY"',
      ),
    )
    .action(async (inputs: string[], options) => {
      const { check } = await import('./commands/check.ts');
      done(await check(inputs, options));
    });
  program
    .command('diff')
    .description(
      'compare two runs: steps, phases, ops, kernels, collectives; what is slower, faster, added or gone, and what of that is noise',
    )
    .argument('<a>', `the run before: ${inputKinds}`)
    .argument('<b>', 'the run after, of the same or another kind')
    .addOption(
      new Option('--fail-on <percent>', 'a difference counts from so many per cent on, of the step or of the line')
        .argParser(percent)
        .default(0.03, '3'),
    )
    .option('--steps <from-to>', 'these steps alone, of both runs', stepRange)
    .option('--ranks <list>', 'these ranks alone, such as 0-3,8', rankList)
    .addOption(new Option('--on <place>', 'lines of this place alone').choices(['host', 'device']))
    .addOption(new Option('--sort <key>', 'by the size of the difference (cost), its share, …').choices(differenceSorts).default('cost'))
    .option('--limit <n>', 'lines of each kind, -1 for all (default: 20, with --json all)', rowLimit)
    .option('--all', 'lines within the noise, too')
    .addOption(new Option('--run-a <name>', 'the run, where A holds several').argParser(runName))
    .addOption(new Option('--run-b <name>', 'the run, where B holds several').argParser(runName))
    .option(...allowMixed)
    .addOption(memoryOption())
    .option(...json)
    .addHelpText(
      'after',
      `
The first line is the verdict of ranktrace check on the steps, each as long as its slowest rank: exit code 1 where B is
slower, 0 where it is not, 2 for bad input. Times of names are per step and rank, so runs of other lengths and sizes compare:
self times of spans (what no span inside of them covers), whole times of phases; the median over steps, and the mean of
what is in fewer than half of them, or is in about half of them, or longer in these. A line is slower or faster where the
difference is --fail-on or more of it, and more than the scatter of its steps explains; else it is within the noise. With
fewer than three steps the noise is not known.
Work of GPUs counts to the step that launched it, whenever it ran.
A name that a run lacks is added or gone. Without steps the whole recording counts as one.`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace diff ranktrace-out/main ranktrace-out/pr-512',
        'ranktrace diff before/ after/ --on device --limit 50',
        'ranktrace diff before.pftrace after.pftrace --ranks 0-7 --json | jq .names',
      ),
    )
    .action(async (a: string, b: string, options) => {
      const { diff } = await import('./commands/diff.ts');
      done(await diff(a, b, options));
    });
  const prunes = program
    .command('prune')
    .description('remove what is no longer to be kept of stored runs: traces, then events, then the times of steps')
    .argument('<directory>', 'a run directory, or the --out directory of a service, which may run meanwhile')
    .option('--dry-run', 'only say what would be removed')
    .option(...json);
  for (const option of retentionOptions()) prunes.addOption(option);
  prunes
    .addHelpText(
      'after',
      `
Runs that are being written are left alone and named, with exit code 1: their service prunes them (ranktrace serve
--keep-detail …). What was pruned is in pruned.json of the run, and in every report, trace and page of it.`,
    )
    .addHelpText(
      'after',
      examples(
        'ranktrace prune ranktrace-out --keep-detail 7d --keep-steps 1y --dry-run',
        'ranktrace prune ranktrace-out --store-max 200G --json',
      ),
    )
    .action(async (directory: string, options) => {
      const { prune } = await import('./commands/prune.ts');
      done(await prune(directory, options));
    });
  program
    .command('doctor')
    .description('check what a run needs: Node, clock, output directory, GPU, NATS; or how well the clocks of a recorded run are aligned')
    .argument('[input...]', `a recorded run, whose clocks to check instead: ${inputKinds}`)
    .addOption(whichRun)
    .option(...allowMixed)
    .addOption(memoryOption())
    .option('--out <dir>', 'directory of the run store (default: "ranktrace-out")')
    .option(...json)
    .addOption(servers)
    .addHelpText('after', examples('ranktrace doctor --nats nats://localhost:4222', 'ranktrace doctor ranktrace-out/night-42'))
    .action(async (inputs: string[], options) => {
      const { doctor } = await import('./commands/doctor.ts');
      done(await doctor(inputs, { ...options, nats: natsOptions(options.nats, environment) }));
    });

  simulateOptions(program.command('simulate')).action(async (options) => {
    const { simulate } = await import('./commands/simulate.ts');
    done(await simulate(options));
  });

  try {
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    return exitCodeOf(error);
  }
}

/** Whether the command's work goes on without its output: it ends as that work does. */
export const doesMoreThanPrint = ([command = '']: readonly string[]): boolean => ['run', 'serve', 'agent', 'watch'].includes(command);

/** Every command that reads a recording takes all of these. */
const inputKinds =
  "run directories, spools or segment files; the torch.profiler files of a job, or their directory; a timeline of NDTimeline; a Zipkin file; dumps of PyTorch's Flight Recorder; logs of NCCL Inspector; a .pftrace file; - reads any one file from the standard input";

const example = (line: string): string => `\nExample:\n  ${line}`;
const examples = (...lines: string[]): string => `\nExamples:\n  ${lines.join('\n  ')}`;

const tokensHelp = `
Tokens: --token, --token-file or RANKTRACE_TOKEN is one for everything. RANKTRACE_RANK_TOKEN is for ranks alone (they
write), RANKTRACE_READ_TOKEN for readers (page, /status, /metrics, alerts), RANKTRACE_CAPTURE_TOKEN for readers who may
capture, too. Whatever has no token is closed as soon as there is one. Clients show the variable of the same name.`;

const exitCodes = `
Exit codes: 0 ok, 1 a finding or a failed check, 2 bad usage or input, 130 ended by Ctrl-C before it was done (SIGTERM: 143); run passes on
the exit code of the first rank that failed, or is 130 where ranks died of its Ctrl-C.

Example:
  ranktrace run --ranks 4 -- node train.js`;

/** An error of commander's: one line that quotes the input, and below it a similar name if there is one. */
function sayUsage(text: string): void {
  const [, message = text, suggestion = ''] = /^error: ([\s\S]*?)(?:\n(\(Did you mean [^\n]*\)))?\n$/.exec(text) ?? [];
  say(message);
  complain(suggestion);
}

function exitCodeOf(error: unknown): number {
  // commander has printed its own line; --help and --version are no errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const { cause } = (error ?? {}) as { readonly cause?: unknown };
  // Node's own functions reject with an error of theirs, whose cause is the signal's.
  const interrupted = error instanceof Interrupted ? error : cause instanceof Interrupted ? cause : undefined;
  const message = interrupted?.message ?? (error instanceof Error ? error.message : String(error));
  say(message);
  if (interrupted !== undefined) return interrupted.exitCode;
  if (error instanceof CliError) return error.code === 'failed' ? 1 : 2;
  if (error instanceof AgentError || error instanceof SdkError) return 2;
  if (error instanceof AggregatorError || error instanceof ProtocolError || error instanceof TraceError) return 2;
  if (error instanceof Error && 'syscall' in error) return 2;
  // A bug of ours: its place matters more than a tidy line.
  if (error instanceof Error) complain(error.stack ?? '');
  return 1;
}
