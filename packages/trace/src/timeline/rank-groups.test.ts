import { describe, expect, it } from 'vitest';
import { axisOf, RankGroups } from './rank-groups.ts';

describe('axisOf', () => {
  it('is the name without number, ranks and what stands between', () => {
    const axes = {
      'tp 3': 'tp',
      tp3: 'tp',
      dp_0: 'dp',
      'mesh_tp:1': 'mesh_tp',
      'pp [0, 4, 8]': 'pp',
      default_pg: 'default_pg',
      '17': 'group',
      '': 'group',
    };
    for (const [group, axis] of Object.entries(axes)) expect([group, axisOf(group)]).toEqual([group, axis]);
  });
});

describe('RankGroups', () => {
  it('reports groups in order of axis and number, one with all ranks as the world', () => {
    const groups = new RankGroups();
    for (const [group, rank] of [
      ['tp 10', 3],
      ['tp 2', 1],
      ['tp 2', 0],
      ['everyone', 1],
      ['everyone', 0],
      ['everyone', 3],
    ] as const)
      groups.see(group, rank);
    expect(groups.shown(3)).toEqual([
      { axis: 'tp', group: 'tp 2', ranks: [0, 1] },
      { axis: 'tp', group: 'tp 10', ranks: [3] },
      { axis: 'world', group: 'everyone', ranks: [0, 1, 3] },
    ]);
    expect(groups.revision).toBe(6);
    groups.see('tp 2', 0);
    expect(groups.revision).toBe(6);
  });
});
