// Every bound of sampling host and devices, with its unit last.

export const sampleLimits = {
  /** Range of the interval at which `nvidia-smi` is asked for a row per device. */
  deviceIntervalMsMin: 100,
  deviceIntervalMsMax: 3_600_000,
  /** `nvidia-smi dmon` takes whole seconds up to this many. */
  throughputIntervalSecondsMax: 10,
  /** NVLink is read by a process of its own each time: tens of ms of CPU, so seldom. */
  nvlinkIntervalMs: 10_000,
  nvlinkTimeoutMs: 10_000,

  /** Devices, and entries of CUDA_VISIBLE_DEVICES; further ones are not sampled. */
  devicesMax: 64,
  /** Links of one device (the most today: 18). */
  linksMax: 64,

  /** A longer line is skipped to its end; a row of ours has about 150 characters. */
  lineCharsMax: 4096,
  /** Lines read in one interval; further ones are skipped. */
  linesPerIntervalMax: 512,
  /** Output read in one second; then the child waits until the second is over. */
  outputCharsPerSecondMax: 16 * 1024 * 1024,
  nameCharsMax: 128,
  /** Of what a child said, in the one notice line. */
  reasonCharsMax: 160,

  /** A child that is silent for this long, or for this many intervals if that is longer, is ended. Its start may load the driver. */
  silenceMsMax: 30_000,
  silentIntervalsMax: 10,
  /** What a child said last is waited for this long after its end. */
  pipesOpenMsMax: 200,
  /** Waits before a child that ended is started again: one per restart, in all the time it is wanted. */
  restartDelaysMs: [1000, 5000, 30_000],

  /** What `monitorEventLoopDelay` wakes up for. */
  eventLoopResolutionMs: 20,
  /** Threads of the process that are asked for how long they waited for a CPU; the oldest ones. */
  threadsMax: 64,
  /** A shorter time tells no rate. */
  hostIntervalMsMin: 1,
} as const;

/** The bounds, as an argument: tests shorten the waits. */
export type SampleLimits = {
  readonly [Name in keyof typeof sampleLimits]: (typeof sampleLimits)[Name] extends number ? number : readonly number[];
};
