// Stacks of nested spans in FlameGraph's collapsed format (https://github.com/brendangregg/FlameGraph), which speedscope reads, too:
//
//   rank 0;main;forward;aten::linear;aten::addmm 1520        outermost first, then self time in ns
//
// Spans nest as they do on the timeline; torch/collapsed-stacks.ts writes recorded call stacks instead. Steps are left out: they lie beside the spans.
// A span that never ended lasts until its process was last heard of, as in torch/key-averages.ts.
// Invariant: the lines add up to the self times of all spans (model/nested-times.ts).

import { ByteBuffer } from '../model/byte-buffer.ts';
import { KeyedStacks } from '../model/keyed-stacks.ts';
import { NestedTimes } from '../model/nested-times.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink, WriteBytes } from '../model/trace-sink.ts';
import { processNames } from './process-names.ts';
import { writeLimits as limits } from './write-limits.ts';

class Node {
  readonly name: string;
  readonly parent: Node | undefined;
  /** Nodes above it. */
  readonly depth: number;
  self = 0;
  readonly children = new Map<string, Node>();

  constructor(name: string, parent: Node | undefined) {
    this.name = name;
    this.parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
  }
}

/**
 * A sink that writes collapsed stacks, at `end`. Spans below the last of `foldedNodesMax` stacks, or inside of `foldedDepthMax` others, count for the stack
 * that they lie in.
 */
export function foldedWriter(write: WriteBytes): TraceSink {
  return new FoldedWriter(write);
}

class FoldedWriter implements TraceSink {
  readonly #out: ByteBuffer;
  readonly #root = new Node('', undefined);
  readonly #lanes: (Node | undefined)[] = [];
  readonly #open = new KeyedStacks<Node>();
  readonly #nested = new NestedTimes<Node>((node, _lane, _length, self) => {
    node.self += self;
  });
  #names: ReadonlyMap<TraceProcess, string> = new Map();
  #nodes = 0;

  constructor(write: WriteBytes) {
    this.#out = new ByteBuffer(write);
  }

  begin(header: TraceHeader): void {
    this.#names = processNames(header);
  }

  lane(lane: TraceLane): void {
    const { process } = lane;
    while (this.#lanes.length <= lane.index) this.#lanes.push(undefined);
    this.#lanes[lane.index] = this.#child(this.#child(this.#root, this.#names.get(process) ?? `rank ${process.rank}`), lane.name);
    this.#nested.lane(lane);
  }

  event(event: TraceEvent): void {
    const { kind, lane, start, name, state } = event;
    if (kind === 'instant' || kind === 'counter' || kind === 'step') return;
    const key = state === 'whole' ? '' : `${lane.index} ${start} ${kind} ${name}`;
    if (state === 'close') {
      const node = this.#open.pop(key);
      if (node !== undefined) this.#nested.event(event, node);
      return;
    }
    const node = this.#child(this.#nested.enclosing(lane, start) ?? (this.#lanes[lane.index] as Node), name);
    if (state === 'open') this.#open.push(key, node);
    this.#nested.event(event, node);
  }

  end(totals: readonly ProcessTotals[] = []): void {
    const lastKnown = new Map(totals.map(({ process, until }) => [process.index, until]));
    this.#nested.end(({ index }) => lastKnown.get(index));
    const frames: string[] = [];
    const write = (node: Node): void => {
      for (const child of node.children.values()) {
        frames.push(frameOf(child.name));
        const self = Math.round(child.self);
        if (self > 0) {
          this.#out.next();
          this.#out.utf8(`${frames.join(';')} ${self}\n`);
        }
        write(child);
        frames.pop();
      }
    };
    write(this.#root);
    this.#out.flush();
  }

  #child(parent: Node, name: string): Node {
    const known = parent.children.get(name);
    if (known !== undefined) return known;
    // Lanes always have a line of their own; there are few.
    if (this.#nodes >= limits.foldedNodesMax && parent.depth >= laneDepth) return parent;
    // Each line names all of its stack, and writing goes as deep.
    if (parent.depth >= limits.foldedDepthMax + laneDepth) return parent;
    this.#nodes++;
    const node = new Node(name, parent);
    parent.children.set(name, node);
    return node;
  }
}

/** A lane lies below its process and the root. */
const laneDepth = 2;

/** A name without the signs that separate frames and lines. */
const frameOf = (name: string): string => name.replaceAll(/[;\t\r\n]/g, '_') || '(no name)';
