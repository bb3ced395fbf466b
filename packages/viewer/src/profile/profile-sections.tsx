// The parts of a profile: tabs of the page, and chapters of a report's file.

import type { RunProfile } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { formatRanks } from '../controls/format.ts';
import { Card } from '../overview/card.tsx';
import { rankName } from '../overview/rank-lives.ts';
import { AdviceList, MemoryCurve, PathSummary } from './profile-charts.tsx';
import {
  AllocatorTable,
  CopyTable,
  DeviceTable,
  GroupTable,
  IdleTable,
  KernelTable,
  LauncherTable,
  MemoryHolderTable,
  MemoryKindTable,
  MemoryTable,
  OperatorTable,
  SequenceTable,
  type TableProps,
} from './profile-tables.tsx';
import './profile.css';

export type ProfileSection = 'devices' | 'operators' | 'kernels' | 'memory' | 'modules' | 'communication';

/** In the order in which they are read; `isEmpty`: nothing of it was recorded. */
export const profileSections: readonly {
  readonly key: ProfileSection;
  readonly title: string;
  readonly isEmpty: (profile: RunProfile) => boolean;
}[] = [
  { key: 'devices', title: 'GPUs', isEmpty: ({ devices }) => devices.length === 0 },
  { key: 'operators', title: 'Operators', isEmpty: ({ operators }) => operators.lines.length === 0 },
  { key: 'kernels', title: 'Kernels', isEmpty: ({ kernels }) => kernels.lines.length === 0 },
  { key: 'memory', title: 'Memory', isEmpty: ({ memory }) => memory.length === 0 },
  { key: 'modules', title: 'Modules', isEmpty: ({ modules }) => modules.lines.length === 0 },
  { key: 'communication', title: 'Communication', isEmpty: ({ groups }) => groups.length === 0 },
];

/** Curves that are drawn: those with the highest peaks. */
const curvesMax = 4;

export const ProfileSectionCards = ({ section, ...props }: TableProps & { readonly section: ProfileSection }): JSX.Element => (
  <>
    {props.profile.restarted.length > 0 && <p class="muted">{livesText(section, props.profile)}</p>}
    <Cards section={section} {...props} />
  </>
);

/** Which lives the tables are of, where ranks were started again. */
function livesText(section: ProfileSection, { restarted }: RunProfile): string {
  const isOne = restarted.length === 1;
  const tables = section === 'memory' ? 'memory is of every life, allocations are of the last one' : 'these tables are of the last life';
  return `${isOne ? 'Rank' : 'Ranks'} ${formatRanks(restarted)} ${isOne ? 'was' : 'were'} started again: ${tables}${isOne ? '' : ' of each'}.`;
}

function Cards({ section, ...props }: TableProps & { readonly section: ProfileSection }): JSX.Element {
  const { profile } = props;
  // Advice and the path are about the ranks together: a rank that waits is told by another what to change.
  const ofAll = profile.rank === null ? '' : 'of all ranks, whichever is chosen: ';
  switch (section) {
    case 'devices':
      return (
        <>
          <Card title="What to change" aside={`${ofAll}measured rules that fire`}>
            <AdviceList profile={profile} />
          </Card>
          {profile.path !== null && (
            <Card title="Critical path" aside={`${ofAll}of the step of median length on the devices`}>
              <PathSummary path={profile.path} />
            </Card>
          )}
          <Card title="Idle time" aside="by cause, and where the host was meanwhile">
            <IdleTable {...props} />
          </Card>
          <Card title="Devices" aside="least used on top">
            <DeviceTable profile={profile} />
          </Card>
        </>
      );
    case 'operators':
      return (
        <Card title="Operators" aside="on the host, and the work that they launched">
          <OperatorTable {...props} />
        </Card>
      );
    case 'kernels':
      return (
        <>
          <Card title="Kernels">
            <KernelTable {...props} />
          </Card>
          <Card title="Kernels by phase" aside="in which the host launched them">
            <LauncherTable {...props} of="phases" title="Phase" empty="No kernels were recorded." />
          </Card>
          {profile.sequences.length > 0 && (
            <Card title="Frequent sequences" aside="that operators launch again and again: a fused kernel would replace one">
              <SequenceTable {...props} />
            </Card>
          )}
          <Card title="Copies and sets">
            <CopyTable profile={profile} />
          </Card>
        </>
      );
    case 'memory': {
      const curves = profile.memory.filter(({ curve }) => curve.length > 1).sort((a, b) => b.peak - a.peak);
      return (
        <>
          <Card title="Memory" aside="allocated, by device">
            {curves.slice(0, curvesMax).map((memory) => (
              <MemoryCurve key={`${rankName(memory)}/${memory.device}/${memory.peakAt}`} memory={memory} />
            ))}
            <MemoryTable profile={profile} />
          </Card>
          <Card title="At the peak" aside="categories as the parts of the program show them">
            <MemoryKindTable {...props} />
            <MemoryHolderTable {...props} />
          </Card>
          <Card title="Allocations" aside="by the operator that allocated">
            <AllocatorTable {...props} />
          </Card>
        </>
      );
    }
    case 'modules':
      return (
        <Card title="Modules" aside="by the kernels that they launched">
          <LauncherTable
            {...props}
            of="modules"
            title="Module"
            empty="No modules were recorded: torch.profiler does so with_modules or with_stack."
          />
        </Card>
      );
    case 'communication':
      return (
        <Card title="Communication" aside="of devices, by process group">
          <GroupTable profile={profile} />
        </Card>
      );
  }
}
