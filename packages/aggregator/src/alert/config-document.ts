// A YAML file that knows the position of each value, so that an error names the line.

import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument, type YAMLError } from 'yaml';
import type { z } from 'zod';
import { deliveryLimits as limits } from './delivery-limits.ts';

/** Values that may be passwords: an error does not repeat them, nor maps that may hold them. */
const secret = /^(url|token|headers|authorization)$/i;

const shownCharsMax = 60;

export class ConfigDocument {
  readonly #name: string;
  readonly #lines = new LineCounter();
  readonly #document: Document.Parsed;
  readonly #value: unknown;
  readonly #errors: string[] = [];

  /** Parses `text`; `name` begins every error, as in `alerts.yml:7: …`. Never throws. */
  constructor(name: string, text: string) {
    this.#name = name;
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, stringKeys: true });
    // A warning marks an unknown tag, whose value would be left out silently.
    const trouble = [...this.#document.errors, ...this.#document.warnings].map((error) => this.#syntaxError(error));
    this.#errors.push(...new Set(trouble));
    if (this.#errors.length > 0) return;
    try {
      // Few aliases: a short file must not describe a large one.
      this.#value = this.#document.toJS({ maxAliasCount: limits.configEntriesMax }) ?? {};
    } catch (error) {
      this.#errors.push(`${name}: ${(error as Error).message}`);
    }
  }

  /** Syntax errors of the file itself, one line each. */
  get errors(): readonly string[] {
    return this.#errors;
  }

  /** The whole file as plain values; an empty one is an empty map. */
  get value(): unknown {
    return this.#value;
  }

  /** Issues of a schema as lines `FILE:LINE: KEY what is allowed, got VALUE`, in the order of the file. */
  errorsOf(issues: readonly z.core.$ZodIssue[]): string[] {
    // One error per key: the first states what is allowed.
    const first = issues.filter(({ path }, index) => issues.findIndex((one) => pathText(one.path) === pathText(path)) === index);
    const found = first.flatMap((issue) => (issue.code === 'unrecognized_keys' ? this.#unknownKeys(issue) : [this.#wrongValue(issue)]));
    return found.sort((a, b) => a.line - b.line).map(({ line, text }) => `${this.#name}:${line}: ${text}`);
  }

  #wrongValue({ path, message }: z.core.$ZodIssue): { line: number; text: string } {
    const value = path.reduce<unknown>(
      (at, key) => (typeof at === 'object' && at !== null ? Reflect.get(at, key) : undefined),
      this.#value,
    );
    const isShown = !(value === undefined || (typeof value === 'object' && value !== null) || path.some((key) => secret.test(String(key))));
    return { line: this.#lineOf(path), text: `${pathText(path)} ${message}${isShown ? `, got ${shown(value)}` : ''}` };
  }

  #unknownKeys({ path, message, keys }: z.core.$ZodIssueUnrecognizedKeys): { line: number; text: string }[] {
    return keys.map((key) => ({
      line: this.#lineOf([...path, key]),
      text: `${pathText([...path, key])} is not known here: ${message}`,
    }));
  }

  /** The line of a key, or of the map that it is missing in. */
  #lineOf(path: readonly PropertyKey[]): number {
    for (let length = path.length; length > 0; length--) {
      const offset = this.#offsetOf(path.slice(0, length));
      if (offset !== undefined) return this.#lines.linePos(offset).line;
    }
    return 1;
  }

  #offsetOf(path: readonly PropertyKey[]): number | undefined {
    const last = path.at(-1);
    const parent = path.length === 1 ? this.#document.contents : this.#document.getIn(path.slice(0, -1), true);
    if (isMap(parent)) {
      const pair = parent.items.find(({ key }) => (isScalar(key) ? key.value : key) === last);
      return isNode(pair?.key) ? pair.key.range?.[0] : undefined;
    }
    const node = this.#document.getIn(path, true);
    return isNode(node) ? node.range?.[0] : undefined;
  }

  #syntaxError({ message, pos }: YAMLError): string {
    return `${this.#name}:${this.#lines.linePos(pos[0]).line}: ${message.split('\n', 1)[0]}`;
  }
}

/** `outputs[2].url`. */
function pathText(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'the file';
  return path.map((key, index) => (typeof key === 'number' ? `[${key}]` : `${index === 0 ? '' : '.'}${String(key)}`)).join('');
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= shownCharsMax ? text : `${text.slice(0, shownCharsMax)}…`;
}
