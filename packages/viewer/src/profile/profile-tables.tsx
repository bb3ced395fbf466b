// The tables of a profile, for the page and for a report's file. Each is sorted, read by pages, and can be copied or saved.

import {
  lineName,
  type ProfileAllocator,
  type ProfileCopy,
  type ProfileDevice,
  type ProfileGroup,
  type ProfileHolder,
  type ProfileIdle,
  type ProfileKernel,
  type ProfileLauncher,
  type ProfileMemory,
  type ProfileOp,
  type ProfileSequence,
  type RunProfile,
  tensorBytesText,
} from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatBytes, formatCount } from '../controls/format.ts';
import { rankName } from '../overview/rank-lives.ts';
import {
  bandwidthColumn,
  bytesColumn,
  countColumn,
  nameColumn,
  numberColumn,
  percentColumn,
  restText,
  type ShowPlace,
  shareColumn,
  timeColumn,
} from './profile-columns.tsx';

export interface TableProps {
  readonly profile: RunProfile;
  readonly onPlace: ShowPlace;
  readonly pageRows?: number | undefined;
}

/** Columns of one kind of row: their figures are typed by it. */
const columnsOf = <Row,>(columns: readonly Column<Row>[]): readonly Column<Row>[] => columns;
const ofRank = ({ rank }: RunProfile): string => (rank === null ? '' : ` of rank ${rank}`);
/** Whether lines are of several ranks. */
const isOfMany = ({ rank, ranks }: RunProfile): boolean => rank === null && ranks.length > 1;
const paged = (pageRows: number | undefined): { readonly pageRows?: number } => (pageRows === undefined ? {} : { pageRows });

export function OperatorTable({ profile, onPlace, pageRows }: TableProps): JSX.Element {
  const { lines, rest } = profile.operators;
  const isOnDevice = lines.some(({ deviceSelf }) => deviceSelf !== null);
  const device: readonly Column<ProfileOp>[] = [
    timeColumn({ key: 'deviceSelf', title: 'Device self', hint: 'Time of the work that it launched itself', of: (op) => op.deviceSelf }),
    timeColumn({ key: 'deviceTotal', title: 'Device total', hint: 'The same with that of ops inside', of: (op) => op.deviceTotal }),
    percentColumn({
      key: 'cores',
      title: 'Tensor cores',
      hint: 'Part of its own device time that ran on tensor cores',
      of: ({ deviceSelf, tensorCores }) => (deviceSelf === null || deviceSelf === 0 ? null : tensorCores / deviceSelf),
    }),
  ];
  return (
    <DataTable
      caption={`Operators${ofRank(profile)}`}
      columns={columnsOf<ProfileOp>([
        nameColumn<ProfileOp>('Operator', onPlace),
        countColumn({ key: 'calls', title: 'Calls', of: ({ calls }) => calls }),
        ...(isOnDevice ? device : []),
        timeColumn({ key: 'hostSelf', title: 'Host self', hint: 'Without ops and calls inside', of: (op) => op.hostSelf }),
        timeColumn({ key: 'hostTotal', title: 'Host total', hint: 'With ops inside', of: (op) => op.hostTotal }),
        timeColumn({ key: 'mean', title: 'Host mean', of: ({ hostTotal, calls }) => (calls > 0 ? hostTotal / calls : null) }),
        ...(isOfMany(profile) ? [countColumn<ProfileOp>({ key: 'ranks', title: 'Ranks', of: ({ ranks }) => ranks })] : []),
      ])}
      rows={lines}
      keyOf={({ name }) => name}
      order={{ by: isOnDevice ? 'deviceSelf' : 'hostSelf', direction: 'down' }}
      {...paged(pageRows)}
      empty="No operators were recorded."
      foot={restText(rest)}
    />
  );
}

export function KernelTable({ profile, onPlace, pageRows }: TableProps): JSX.Element {
  const { lines, rest } = profile.kernels;
  const isOfAll = isOfMany(profile);
  const ranks: readonly Column<ProfileKernel>[] = [
    countColumn({ key: 'ranks', title: 'Ranks', of: (kernel) => kernel.ranks }),
    timeColumn({ key: 'least', title: 'Least of a rank', of: ({ leastOfRank }) => leastOfRank }),
    timeColumn({ key: 'most', title: 'Most of a rank', of: ({ mostOfRank }) => mostOfRank }),
  ];
  const shape: readonly Column<ProfileKernel>[] = [
    numberColumn({ key: 'blocks', title: 'Blocks per SM', hint: 'Weighted by time', of: ({ blocksPerSm }) => blocksPerSm }),
    percentColumn({ key: 'occupancy', title: 'Occupancy', hint: 'Estimated, weighted by time', of: ({ occupancy }) => occupancy }),
  ];
  return (
    <DataTable
      caption={`Kernels${ofRank(profile)}`}
      columns={columnsOf<ProfileKernel>([
        nameColumn<ProfileKernel>('Kernel', onPlace),
        { key: 'class', title: 'Kind', sort: (kernel) => kernel.class, show: (kernel) => kernel.class },
        countColumn({ key: 'count', title: 'Calls', of: ({ count }) => count }),
        timeColumn({ key: 'total', title: 'Total', of: ({ total }) => total }),
        shareColumn({ key: 'share', title: 'Share', hint: 'Of the time of all kernels', of: ({ share }) => share }),
        timeColumn({ key: 'mean', title: 'Mean', of: ({ total, count }) => (count > 0 ? total / count : null) }),
        timeColumn({ key: 'longest', title: 'Longest', of: ({ longest }) => longest }),
        ...(isOfAll ? ranks : []),
        {
          key: 'cores',
          title: 'Tensor cores',
          sort: ({ tensorCores }) => (tensorCores ? 'yes' : 'no'),
          show: ({ tensorCores }) => (tensorCores ? 'yes' : ''),
        },
        ...(lines.some(({ blocksPerSm }) => blocksPerSm !== null) ? shape : []),
      ])}
      rows={lines}
      keyOf={({ name }) => name}
      order={{ by: 'total', direction: 'down' }}
      {...paged(pageRows)}
      empty="No kernels were recorded."
      foot={restText(rest, 'kernel')}
    />
  );
}

export function LauncherTable(
  props: TableProps & { readonly of: 'modules' | 'phases'; readonly title: string; readonly empty: string },
): JSX.Element {
  const { profile, onPlace, pageRows, of, title, empty } = props;
  const { lines, rest } = profile[of];
  return (
    <DataTable
      caption={`Kernels by ${title.toLowerCase()}${ofRank(profile)}`}
      columns={columnsOf<ProfileLauncher>([
        nameColumn<ProfileLauncher>(title, onPlace && ((_, place) => onPlace('', place)), '(outside of all)'),
        countColumn({ key: 'kernels', title: 'Kernels', of: ({ kernels }) => kernels }),
        timeColumn({ key: 'total', title: 'Device time', of: ({ total }) => total }),
        shareColumn({ key: 'share', title: 'Share', hint: 'Of the time of all kernels', of: ({ share }) => share }),
        percentColumn({
          key: 'cores',
          title: 'Tensor cores',
          hint: 'Part of its device time that ran on tensor cores',
          of: ({ total, tensorCores }) => (total > 0 ? tensorCores / total : null),
        }),
      ])}
      rows={lines}
      keyOf={({ name }) => name}
      order={{ by: 'total', direction: 'down' }}
      {...paged(pageRows)}
      empty={empty}
      foot={restText(rest, 'kernel')}
    />
  );
}

export const GroupTable = ({ profile }: Pick<TableProps, 'profile'>): JSX.Element => (
  <DataTable
    caption={`Communication by group${ofRank(profile)}`}
    columns={columnsOf<ProfileGroup>([
      { key: 'group', title: 'Group', sort: ({ group }) => group, show: ({ group }) => lineName(group) },
      ...(isOfMany(profile) ? [countColumn<ProfileGroup>({ key: 'ranks', title: 'Ranks', of: ({ ranks }) => ranks })] : []),
      countColumn({ key: 'kernels', title: 'Kernels', of: ({ kernels }) => kernels }),
      timeColumn({ key: 'total', title: 'Time a rank', of: ({ total, ranks }) => total / ranks }),
      timeColumn({ key: 'exposed', title: 'Alone', hint: 'Behind no compute, of a rank', of: ({ exposed, ranks }) => exposed / ranks }),
      shareColumn({ key: 'hidden', title: 'Behind compute', of: ({ total, overlapped }) => (total > 0 ? overlapped / total : null) }),
      bytesColumn({ key: 'bytes', title: 'Bytes a rank', of: ({ bytes, ranks }) => (bytes > 0 ? bytes / ranks : null) }),
      bandwidthColumn({ key: 'bus', title: 'Best bus bandwidth', of: ({ busBandwidth }) => busBandwidth }),
    ])}
    rows={profile.groups}
    keyOf={({ group }) => group}
    order={{ by: 'total', direction: 'down' }}
    empty="No communication of devices was recorded."
  />
);

export const CopyTable = ({ profile }: Pick<TableProps, 'profile'>): JSX.Element => (
  <DataTable
    caption={`Copies and sets${ofRank(profile)}`}
    columns={columnsOf<ProfileCopy>([
      { key: 'kind', title: 'Copies', sort: ({ kind }) => kind, show: ({ kind }) => kind },
      countColumn({ key: 'count', title: 'Calls', of: ({ count }) => count }),
      timeColumn({ key: 'total', title: 'Total', of: ({ total }) => total }),
      bytesColumn({ key: 'bytes', title: 'Bytes', of: ({ bytes }) => (bytes > 0 ? bytes : null) }),
      bandwidthColumn({ key: 'bandwidth', title: 'Bandwidth', hint: 'While such a copy runs', of: ({ bandwidth }) => bandwidth }),
    ])}
    rows={profile.copies}
    keyOf={({ kind }) => kind}
    order={{ by: 'total', direction: 'down' }}
    empty="No copies were recorded."
  />
);

export const SequenceTable = ({ profile, pageRows }: Omit<TableProps, 'onPlace'>): JSX.Element => (
  <DataTable
    caption={`Frequent sequences of kernels${ofRank(profile)}`}
    columns={columnsOf<ProfileSequence>([
      { key: 'op', title: 'Operator', sort: ({ op }) => op, show: ({ op }) => <span title={op}>{lineName(op)}</span> },
      countColumn({ key: 'kernels', title: 'Kernels', hint: 'In one sequence', of: ({ kernels }) => kernels }),
      countColumn({ key: 'count', title: 'Times', of: ({ count }) => count }),
      timeColumn({ key: 'total', title: 'Total', hint: 'Of its kernels', of: ({ total }) => total }),
      {
        key: 'first',
        title: 'First kernels',
        sort: ({ first }) => first.join(),
        show: ({ first, kernels }) => (
          <span title={first.join('\n')}>{`${first.map((name) => lineName(name)).join(', ')}${kernels > first.length ? ', …' : ''}`}</span>
        ),
      },
    ])}
    rows={profile.sequences}
    keyOf={({ op, first, kernels }) => JSON.stringify([op, first, kernels])}
    order={{ by: 'total', direction: 'down' }}
    {...paged(pageRows)}
    empty="No operator launched the same sequence of kernels twice."
  />
);

const causeText: Readonly<Record<ProfileIdle['cause'], string>> = {
  hostLate: 'host late',
  launch: 'launch',
  dependency: 'waiting',
  other: 'unknown',
};

export function IdleTable({ profile, pageRows }: Omit<TableProps, 'onPlace'>): JSX.Element {
  const { lines, rest } = profile.idle;
  const all = lines.reduce((sum, { time }) => sum + time, rest.total);
  return (
    <DataTable
      caption={`Idle time of GPUs${ofRank(profile)}`}
      columns={columnsOf<ProfileIdle>([
        { key: 'cause', title: 'Cause', sort: ({ cause }) => causeText[cause], show: ({ cause }) => causeText[cause] },
        { key: 'phase', title: 'Phase of the host', sort: ({ phase }) => phase, show: ({ phase }) => lineName(phase) || '–' },
        { key: 'op', title: 'Op or call', sort: ({ op }) => op, show: ({ op }) => <span title={op}>{lineName(op) || '–'}</span> },
        timeColumn({ key: 'time', title: 'Time', of: ({ time }) => time }),
        shareColumn({ key: 'share', title: 'Share', hint: 'Of all idle time', of: ({ time }) => (all > 0 ? time / all : null) }),
        countColumn({ key: 'gaps', title: 'Gaps', of: ({ gaps }) => gaps }),
      ])}
      rows={lines}
      keyOf={({ cause, phase, op }) => JSON.stringify([cause, phase, op])}
      order={{ by: 'time', direction: 'down' }}
      {...paged(pageRows)}
      empty="The devices were never idle."
      foot={restText(rest, 'place')}
    />
  );
}

/** A figure that is known only where launches were recorded. */
const ofLaunches = (launchP50: number | null, value: number): number | null => (launchP50 === null ? null : value);

export const DeviceTable = ({ profile }: Pick<TableProps, 'profile'>): JSX.Element => (
  <DataTable
    caption={`Devices${ofRank(profile)}`}
    columns={columnsOf<ProfileDevice>([
      { key: 'rank', title: 'Rank', sort: ({ rank }) => rank, show: ({ rank }) => rank },
      { key: 'device', title: 'GPU', sort: ({ device }) => device, show: ({ device }) => device },
      shareColumn({ key: 'use', title: 'Utilisation', hint: 'Time in which any kernel ran', of: ({ utilisation }) => utilisation }),
      percentColumn({ key: 'sm', title: 'SM efficiency', of: ({ smEfficiency }) => smEfficiency }),
      percentColumn({ key: 'occupancy', title: 'Occupancy', hint: 'Estimated, weighted by time', of: ({ occupancy }) => occupancy }),
      timeColumn({
        key: 'p50',
        title: 'Launch p50',
        hint: 'From the end of a call to the start of its work',
        of: ({ launchP50 }) => launchP50,
      }),
      timeColumn({ key: 'p95', title: 'Launch p95', of: ({ launchP95 }) => launchP95 }),
      countColumn({
        key: 'queue',
        title: 'Longest queue',
        hint: 'Launches in one stream',
        of: ({ launchP50, queueMost }) => ofLaunches(launchP50, queueMost),
      }),
      timeColumn({
        key: 'blocked',
        title: 'Host blocked',
        hint: 'By a full queue',
        of: ({ launchP50, blocked }) => ofLaunches(launchP50, blocked),
      }),
    ])}
    rows={profile.devices}
    keyOf={({ rank, device }) => `${rank}/${device}`}
    order={{ by: 'use', direction: 'up' }}
    pageRows={16}
    empty="No device was recorded."
    foot={profile.devicesLeftOut > 0 ? `and ${formatCount(profile.devicesLeftOut)} more` : undefined}
  />
);

export const MemoryTable = ({ profile }: Pick<TableProps, 'profile'>): JSX.Element => (
  <DataTable
    caption={`Memory${ofRank(profile)}`}
    columns={columnsOf<ProfileMemory>([
      lifeColumn<ProfileMemory>(),
      { key: 'device', title: 'Device', sort: ({ device }) => device, show: ({ device }) => device },
      bytesColumn({ key: 'peak', title: 'Peak', hint: 'The most that was allocated at a time', of: ({ peak }) => peak }),
      bytesColumn({ key: 'reserved', title: 'Reserved', hint: 'The most that the allocator held', of: ({ reserved }) => reserved }),
      timeColumn({
        key: 'at',
        title: 'Peak at',
        hint: 'Since the first step, as on the timeline',
        of: ({ peakAt }) => peakAt - (profile.firstStep ?? 0),
      }),
      countColumn({ key: 'allocations', title: 'Allocations', of: ({ allocations }) => allocations }),
    ])}
    rows={profile.memory}
    keyOf={(memory) => `${rankName(memory)}/${memory.device}/${memory.of}/${memory.peakAt}`}
    order={{ by: 'peak', direction: 'down' }}
    pageRows={16}
    empty="No allocations were recorded."
    foot={memoryFoot(profile)}
  />
);

function memoryFoot({ memory, memoryLeftOut }: RunProfile): string | undefined {
  const more = memoryLeftOut > 0 ? `and ${formatCount(memoryLeftOut)} more` : undefined;
  const of = memory.some((one) => one.of === 'tensors') ? tensorBytesText : undefined;
  return [more, of].filter((text) => text !== undefined).join('; ') || undefined;
}

interface KindRow {
  readonly rank: number;
  readonly life?: number;
  readonly device: string;
  readonly kind: string;
  readonly bytes: number;
  readonly share: number;
}

/** The rank, with its life where it was started again. */
const lifeColumn = <Row extends { readonly rank: number; readonly life?: number }>(): Column<Row> => ({
  key: 'rank',
  title: 'Rank',
  sort: ({ rank }) => rank,
  value: rankName,
  show: rankName,
});

const placeColumns = <
  Row extends { readonly rank: number; readonly life?: number; readonly device: string; readonly kind: string },
>(): readonly Column<Row>[] => [
  lifeColumn<Row>(),
  { key: 'device', title: 'Device', sort: ({ device }) => device, show: ({ device }) => device },
  { key: 'kind', title: 'Category', sort: ({ kind }) => kind, show: ({ kind }) => kind },
];

/** What the memory of each device was at its peak. */
export const MemoryKindTable = ({ profile, pageRows }: Omit<TableProps, 'onPlace'>): JSX.Element => (
  <DataTable
    caption={`Memory at its peak by category${ofRank(profile)}`}
    columns={columnsOf<KindRow>([
      ...placeColumns<KindRow>(),
      bytesColumn({ key: 'bytes', title: 'At the peak', of: ({ bytes }) => bytes }),
      shareColumn({ key: 'share', title: 'Share', hint: 'Of the peak of its device', of: ({ share }) => share }),
    ])}
    rows={profile.memory.flatMap(({ rank, life, device, peak, kinds }) =>
      kinds.map(([kind, bytes]): KindRow => ({ rank, ...(life && { life }), device, kind, bytes, share: peak > 0 ? bytes / peak : 0 })),
    )}
    keyOf={(row) => `${rankName(row)}/${row.device}/${row.kind}`}
    order={{ by: 'bytes', direction: 'down' }}
    {...paged(pageRows)}
    empty="No allocations were recorded."
  />
);

interface HolderRow extends ProfileHolder {
  readonly rank: number;
  readonly life?: number;
  readonly device: string;
}

/** What held it: the ops that allocated what was live then. */
export const MemoryHolderTable = ({ profile, pageRows }: Omit<TableProps, 'onPlace'>): JSX.Element => (
  <DataTable
    caption={`Memory at its peak by operator${ofRank(profile)}`}
    columns={columnsOf<HolderRow>([
      { key: 'name', title: 'Operator', sort: ({ name }) => name, show: ({ name }) => lineName(name) || '(outside of all)' },
      ...placeColumns<HolderRow>(),
      { key: 'place', title: 'Part of the program', sort: ({ place }) => place, show: ({ place }) => place },
      bytesColumn({ key: 'bytes', title: 'At the peak', of: ({ bytes }) => bytes }),
      countColumn({ key: 'allocations', title: 'Allocations', of: ({ allocations }) => allocations }),
    ])}
    rows={profile.memory.flatMap(({ rank, life, device, holders }) =>
      holders.map((holder): HolderRow => ({ ...holder, rank, ...(life && { life }), device })),
    )}
    keyOf={({ rank, life, device, kind, place, name }) => JSON.stringify([rank, life, device, kind, place, name])}
    order={{ by: 'bytes', direction: 'down' }}
    {...paged(pageRows)}
    empty="What was live at the peak was allocated before the recording."
  />
);

export const AllocatorTable = ({ profile, onPlace, pageRows }: TableProps): JSX.Element => (
  <DataTable
    caption={`Allocations by operator${ofRank(profile)}`}
    columns={columnsOf<ProfileAllocator>([
      nameColumn<ProfileAllocator>('Operator', onPlace && ((_, place) => onPlace('', place)), '(outside of all)'),
      { key: 'device', title: 'Device', sort: ({ device }) => device, show: ({ device }) => device },
      countColumn({ key: 'allocations', title: 'Allocations', of: ({ allocations }) => allocations }),
      bytesColumn({ key: 'bytes', title: 'Allocated', hint: 'All its allocations together', of: ({ bytes }) => bytes }),
      bytesColumn({ key: 'largest', title: 'Largest', of: ({ largest }) => largest }),
    ])}
    rows={profile.allocators.lines}
    keyOf={({ name, device }) => JSON.stringify([name, device])}
    order={{ by: 'bytes', direction: 'down' }}
    {...paged(pageRows)}
    empty="No allocations were recorded."
    foot={restText(profile.allocators.rest, 'allocation', formatBytes)}
  />
);
