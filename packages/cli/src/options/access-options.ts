// Access to a service: `--token`, `--token-file`, `--tls-cert`, `--tls-key` and the variables RANKTRACE_*TOKEN.
//
//   the service       RANKTRACE_TOKEN for everything, or RANKTRACE_RANK_TOKEN, RANKTRACE_READ_TOKEN, RANKTRACE_CAPTURE_TOKEN for a part of it
//   its clients       the variable of what they do, else RANKTRACE_TOKEN
//
// A secret on a command line is in every process list, so there is a file for it, and the variables.

import { readFileSync, statSync } from 'node:fs';
import { type AccessTokens, type ListenOptions, type Right, tokenVariables } from '@ranktrace/aggregator';
import { InvalidArgumentError, Option } from 'commander';
import { CliError } from '../terminal/errors.ts';

/** The values that commander gives for `accessOptions`. */
export interface AccessArguments {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

type Tokens = Exclude<AccessTokens, string>;

const names: readonly (keyof Tokens)[] = ['all', 'rank', 'read', 'capture'];
/** Characters that a header and an address carry unescaped. */
const tokenPattern = /^[\x21-\x7e]{1,4096}$/;
const fileBytesMax = 65_536;

/** `--token`, `--token-file`, `--tls-cert`, `--tls-key`. */
export function accessOptions(): Option[] {
  return [
    new Option('--token <token>', 'what everybody must show; any user of this host can see it in the process list: prefer --token-file')
      .argParser(tokenIn)
      .conflicts('tokenFile'),
    new Option('--token-file <file>', 'a file with that token, or lines of rank=…, read=…, capture=…, all=… (default: RANKTRACE_*TOKEN)'),
    new Option('--tls-cert <file>', 'speak https and wss: the certificate and its issuers, PEM; read again when it is renewed'),
    new Option('--tls-key <file>', 'the private key of --tls-cert, PEM'),
  ];
}

/** The tokens of a service; undefined without any. Throws CliError `bad_usage` or `bad_input`. */
export function serviceTokens({ token, tokenFile }: AccessArguments, environment: NodeJS.ProcessEnv): Tokens | undefined {
  if (token !== undefined) return { all: token };
  if (tokenFile !== undefined) return tokensOf(tokenFile);
  const variables = { all: 'RANKTRACE_TOKEN', ...tokenVariables };
  const found = names.flatMap((name) => {
    const text = tokenOf(variables[name], environment);
    return text === undefined ? [] : [[name, text] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** The token that a client sends for this right. Throws CliError `bad_usage`. */
export function clientToken(right: Right, environment: NodeJS.ProcessEnv): string | undefined {
  return tokenOf(tokenVariables[right], environment) ?? tokenOf('RANKTRACE_TOKEN', environment);
}

function tokenOf(variable: string, environment: NodeJS.ProcessEnv): string | undefined {
  const text = environment[variable];
  if (!text) return undefined;
  if (tokenPattern.test(text)) return text;
  throw new CliError('bad_usage', `Bad variable ${variable}: it must be up to 4096 visible ASCII characters without spaces`);
}

/** Both files or none. Throws CliError `bad_usage`. */
export function tlsFiles({ tlsCert: cert, tlsKey: key }: AccessArguments): ListenOptions['tls'] {
  if (cert === undefined && key === undefined) return undefined;
  if (cert !== undefined && key !== undefined) return { cert, key };
  const [given, missing] = cert === undefined ? ['--tls-key', '--tls-cert'] : ['--tls-cert', '--tls-key'];
  throw new CliError('bad_usage', `${given} needs ${missing}, too`);
}

function tokenIn(text: string): string {
  if (tokenPattern.test(text)) return text;
  throw new InvalidArgumentError('It must be up to 4096 visible ASCII characters without spaces.');
}

function tokensOf(path: string): Tokens {
  const lines = linesOf(path);
  if (lines.length === 1 && tokenPattern.test(lines[0] as string) && !/^(all|rank|read|capture)=/.test(lines[0] as string))
    return { all: lines[0] };
  const tokens: { -readonly [N in keyof Tokens]: string } = {};
  for (const line of lines) {
    const [, name, text = ''] = /^(all|rank|read|capture)=(.*)$/.exec(line) ?? [];
    if (name === undefined || !tokenPattern.test(text)) {
      throw new CliError(
        'bad_input',
        `Bad --token-file "${path}": it must hold one token, or lines of rank=…, read=…, capture=… and all=…`,
      );
    }
    tokens[name as keyof Tokens] = text;
  }
  if (lines.length === 0) throw new CliError('bad_input', `Bad --token-file "${path}": it is empty`);
  return tokens;
}

function linesOf(path: string): string[] {
  try {
    if (statSync(path).size > fileBytesMax) throw new Error(`it may have ${fileBytesMax} bytes`);
    return readFileSync(path, 'utf8')
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'));
  } catch (cause) {
    throw new CliError('bad_input', `Cannot read --token-file "${path}": ${(cause as Error).message}`, { cause });
  }
}
