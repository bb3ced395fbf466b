// Every bound of sampling host and devices, with its unit last.

export const sampleLimits = {
  /** `nvidia-smi` is asked for a row per device this often at most; a shorter interval is raised to this. */
  deviceIntervalMsMin: 100,
  /** `nvidia-smi` is asked for a row per device this often at least; a longer interval is lowered to this. */
  deviceIntervalMsMax: 3_600_000,
  /** `nvidia-smi dmon` takes whole seconds up to this many; a longer interval is lowered to this. */
  throughputIntervalSecondsMax: 10,
  /** Shortest interval between two readings of NVLink: each takes a process of its own, and tens of ms of CPU. */
  nvlinkIntervalMs: 10_000,
  /** A process that reads NVLink and is silent for this long is ended. */
  nvlinkTimeoutMs: 10_000,

  /** Devices, and entries of CUDA_VISIBLE_DEVICES; further ones are not sampled. */
  devicesMax: 64,
  /** NVLinks of one device (the most today: 18); further ones are left out. */
  linksMax: 64,

  /** Characters of one line of a child's output; a longer one is skipped to its end. A row that we ask for has about 150. */
  lineCharsMax: 4096,
  /** Lines of a child's output that are read in one interval; further ones are skipped. */
  linesPerIntervalMax: 512,
  /** Characters of a child's output that are read in one second; then the child waits until the second is over. */
  outputCharsPerSecondMax: 16 * 1024 * 1024,
  /** Characters of a device's name; the rest is cut off. */
  nameCharsMax: 128,
  /** Characters of a child's output that the one notice about it quotes; the rest is cut off. */
  reasonCharsMax: 160,

  /** A child that is silent for this long is ended. Its start may load the driver. */
  silenceMsMax: 30_000,
  /** A child that is silent for this many intervals of its output is ended, where that is longer than `silenceMsMax`. */
  silentIntervalsMax: 10,
  /** Time after a child's end in which its last output is still read. */
  pipesOpenMsMax: 200,
  /** Back-off before a child that ended is started again: one per restart, in all the time it is wanted. Then it is given up. */
  restartDelaysMs: [1000, 5000, 30_000],

  /** Period of the timer that measures the event loop's delay. */
  eventLoopPeriodMs: 20,
  /** Threads of the process that are asked how long they waited for a CPU: the oldest ones. */
  threadsMax: 64,
  /** Shortest time between two readings of the host that gives a rate; below, none is reported. */
  hostIntervalMsMin: 1,
} as const;

/** The bounds, as an argument: tests shorten the waits. */
export type SampleLimits = {
  readonly [Name in keyof typeof sampleLimits]: (typeof sampleLimits)[Name] extends number ? number : readonly number[];
};
