import type { FlameNode } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ancestorsOf, flameFrames, flameMatches, flameTree, nextFrame, nodeText } from './flame-layout.ts';

const node = (name: string, total: number, children: readonly FlameNode[] = []): FlameNode => {
  const inside = children.reduce((sum, child) => sum + child.total, 0);
  return { name, total, self: Math.max(0, total - inside), count: 1, children };
};
const example = node('', 100, [
  node('forward', 30, [node('linear', 20), node('gelu', 5)]),
  node('backward', 60, [node('linear', 60, [node('mm', 50)])]),
]);
const drawn = (zoom = 0, least = 0) => {
  const tree = flameTree(example);
  return flameFrames(tree, zoom, least).map(
    ({ node, depth, left, width }) => `${'  '.repeat(depth)}${tree.nodes[node]?.name} ${left.toFixed(2)}+${width.toFixed(2)}`,
  );
};

it('says how often a span ran, and nothing of it for the root and the nodes of a split', () => {
  const split = flameTree({ ...node('', 100, [{ ...node('rank 0', 100, [node('mm', 100)]), count: 0 }]), count: 0 });
  expect([0, 1, 2].map((at) => nodeText(split, at).replaceAll(/\s/g, ' '))).toEqual([
    'all: 100 ns, 100 %, self 0 ns',
    'rank 0: 100 ns, 100 %, self 0 ns',
    'mm: 100 ns, 100 %, self 100 ns, 1 time',
  ]);
});

describe('flameFrames', () => {
  it('puts children side by side below their parent, the largest first', () => {
    expect(drawn()).toEqual([
      ' 0.00+1.00',
      '  backward 0.00+0.60',
      '  forward 0.60+0.30',
      '    linear 0.00+0.60',
      '    linear 0.60+0.20',
      '    gelu 0.80+0.05',
      '      mm 0.00+0.50',
    ]);
  });

  it('gives a node that is zoomed to the whole width', () => {
    const forward = flameTree(example).nodes.findIndex(({ name }) => name === 'forward');
    expect(drawn(forward)).toEqual([' 0.00+1.00', '  forward 0.00+1.00', '    linear 0.00+0.67', '    gelu 0.67+0.17']);
  });

  it('leaves out what is too narrow to see', () => {
    expect(drawn(0, 0.25)).toEqual([
      ' 0.00+1.00',
      '  backward 0.00+0.60',
      '  forward 0.60+0.30',
      '    linear 0.00+0.60',
      '      mm 0.00+0.50',
    ]);
  });

  it('keeps children inside their parent and from each other, whatever the sums', () => {
    const treeOf = (levels: number): fc.Arbitrary<FlameNode> =>
      fc
        .record({
          name: fc.string(),
          total: fc.nat(1000),
          children: levels === 0 ? fc.constant([]) : fc.array(treeOf(levels - 1), { maxLength: 4 }),
        })
        .map((values) => ({ ...values, self: 0, count: 1 }));
    const check = (root: FlameNode): void => {
      const tree = flameTree(root);
      const ends = new Map<number, number>();
      for (const { node: at, left, width } of flameFrames(tree, 0, 0)) {
        const parent = tree.parent[at] as number;
        if (parent === -1) continue;
        const edge = (tree.left[parent] as number) + (tree.width[parent] as number);
        expect(left).toBeGreaterThanOrEqual((ends.get(parent) ?? (tree.left[parent] as number)) - 1e-9);
        expect(left + width).toBeLessThanOrEqual(edge + 1e-9);
        ends.set(parent, left + width);
      }
    };
    fc.assert(fc.property(treeOf(4), check), { seed: 11 });
  });

  it('is bounded in what it draws, and by no stack in depth', () => {
    let deep = node('leaf', 1);
    for (let at = 0; at < 20_000; at++) deep = { name: 'f', total: 1, self: 0, count: 1, children: [deep] };
    expect(flameFrames(flameTree(deep), 0, 0)).toHaveLength(3000);
    const wide = node(
      '',
      10_000,
      Array.from({ length: 10_000 }, () => node('g', 1)),
    );
    expect(flameFrames(flameTree(wide), 0, 0)).toHaveLength(3000);
  });
});

it('counts what lies in a match once', () => {
  const tree = flameTree(example);
  expect(flameMatches(tree, 'LINEAR').nodes.size).toBe(2);
  expect(flameMatches(tree, 'linear').part).toBeCloseTo(0.8);
  expect(flameMatches(flameTree(node('', 10, [node('a', 8, [node('a', 8)])])), 'a').part).toBeCloseTo(0.8);
  expect(flameMatches(tree, '  ')).toEqual({ nodes: new Set(), part: 0 });
});

it('goes by arrow keys to what is drawn', () => {
  const tree = flameTree(example);
  const frames = flameFrames(tree, 0, 0.01);
  const named = (at: number): string => [...ancestorsOf(tree, at), at].map((one) => tree.nodes[one]?.name).join('/');
  const go = (from: string, direction: Parameters<typeof nextFrame>[3]): string =>
    named(nextFrame(tree, frames, frames.find(({ node }) => named(node) === from)?.node ?? -1, direction));
  expect(go('', 'down')).toBe('/backward');
  expect(go('/backward', 'right')).toBe('/forward');
  expect(go('/forward', 'right')).toBe('/forward');
  expect(go('/forward/linear', 'left')).toBe('/backward/linear');
  expect(go('/forward/linear', 'up')).toBe('/forward');
  expect(go('', 'up')).toBe('');
  expect(go('/forward/gelu', 'down')).toBe('/forward/gelu');
});
