// Options of `ranktrace simulate`: what the simulated cluster is, and what goes wrong in it.

import { type HostClockStep, type Straggler, type StragglingPhase, stragglingPhases } from '@ranktrace/trace/simulate';
import { type Command, InvalidArgumentError } from 'commander';
import { runName } from './option-values.ts';

/** Gives `command` its options and their help. */
export function simulateOptions(command: Command): Command {
  return command
    .description('write the run store of a simulated cluster, and the truth about its clocks')
    .option('-n, --ranks <n>', 'ranks, 1 to 1024', number, 16)
    .option('--hosts <n>', 'hosts, to which the ranks are spread evenly', number)
    .option('--ranks-per-host <n>', 'instead: at most so many ranks a host (default: 8)', number)
    .option('--seconds <s>', 'simulated time, ended with the step that runs then (default: 30)', number)
    .option('--steps <n>', 'instead: training steps', number)
    .option('--step-ms <ms>', 'length of a step where no rank waits', number, 200)
    .option('--seed <n>', 'the same seed gives the same run, to the byte', number, 0)
    .option('--drift-ppm <ppm>', "deviation of the clocks' rates among hosts", number, 10)
    .option('--asymmetry-us <us>', 'way of pings longer there than back, or shorter, by up to this per host', number, 30)
    .option('--exit-bias-us <us>', 'hosts leave collectives late by 0 to twice this', number, 10)
    .option('--clock-step <host@seconds:micros>', 'a clock jumps ahead, or back below 0; repeatable', listOf(clockStep))
    .option(
      '--straggler <rank:phase:+ms[@step]>',
      `a rank takes longer in ${stragglingPhases.join(', ')}, at each step, at one, or @from-to; repeatable`,
      listOf(straggler),
    )
    .option('--lost <share>', 'collective parts and rpc halves not recorded, batches not arrived, 0 to 0.9', number, 0)
    .option('--no-pings <host>', 'a host that sends no clock pings; repeatable', listOf(number))
    .option('--rpcs-per-second <n>', 'remote calls between ranks, in the whole cluster', number, 60)
    .option('--tensor-parallel <n>', 'ranks that share the work of each layer', number, 1)
    .option('--pipeline <n>', 'stages that send each other activations and gradients', number, 1)
    .option('--transfer-scale <n>', 'collectives and sends take so many times as long once all are there', number, 1)
    .option('--out <dir>', 'directory of the run store', 'ranktrace-out')
    .option('--run <name>', 'name of the run (default: simulated-<seed>)', runName)
    .option('--json', 'print data instead of text')
    .addHelpText('after', '\nExample:\n  ranktrace simulate --ranks 64 --seconds 60 --clock-step 1@30:-300 --straggler 5:backward:+80');
}

/** A repeatable option: the earlier values, and this one. */
const listOf =
  <T>(parse: (text: string) => T) =>
  (text: string, before: readonly T[] | boolean | undefined): readonly T[] => [
    ...(Array.isArray(before) ? (before as readonly T[]) : []),
    parse(text),
  ];

function number(text: string): number {
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number.');
}

function clockStep(text: string): HostClockStep {
  const [, host, seconds, micros] = /^(\d+)@(\d+(?:\.\d+)?):([+-]?\d+(?:\.\d+)?)$/.exec(text) ?? [];
  if (host === undefined) throw new InvalidArgumentError('It must be HOST@SECONDS:MICROS, such as 1@30:-300.');
  return { host: Number(host), seconds: Number(seconds), micros: Number(micros) };
}

function straggler(text: string): Straggler {
  const [, rank, phase, ms, step, last] = /^(\d+):([a-z_]+):\+?(\d+(?:\.\d+)?)(?:@(\d+)(?:-(\d+))?)?$/.exec(text) ?? [];
  if (rank === undefined) throw new InvalidArgumentError('It must be RANK:PHASE:+MS, such as 5:backward:+80, or with @STEP or @FROM-TO.');
  const steps = { ...(step !== undefined && { step: Number(step) }), ...(last !== undefined && { lastStep: Number(last) }) };
  return { rank: Number(rank), phase: phase as StragglingPhase, ms: Number(ms), ...steps };
}
