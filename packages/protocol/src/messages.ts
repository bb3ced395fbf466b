// Small messages between ranks, aggregator and people: JSON text, checked by zod on arrival.
//
// Over a WebSocket, binary frames are batches and text frames are these; over NATS, `clock_ping` is a request whose reply is `clock_pong`.

import { z } from 'zod';
import { droppedSchema } from './batch.ts';
import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';

/** Ranks keep the step in a word of shared memory. */
const capturedStep = z.number().int().min(0).max(limits.capturedStepMax);

/** Identifies a window in its run: the ms since 1970 at which it begins, on the service's wall clock. */
const windowId = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** ns, of either sign. */
const windowNs = z.number().int().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER);

const nanosText = z.string().regex(/^\d{1,20}$/);

/** From a rank to the aggregator. The answer repeats `id`. */
export const rankMessageSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('clock_ping'), id: z.number().int().min(0) }),
]);

/** From the aggregator to a rank. Times are the aggregator's monotonic clock in ns. */
export const controlMessageSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('clock_pong'),
    id: z.number().int().min(0),
    host: z.string().min(1).max(limits.hostCharsMax),
    received: nanosText,
    sent: nanosText,
  }),
  /** The batch is stored; the rank may forget it. */
  z.strictObject({ type: z.literal('ack'), batch: z.string().max(256) }),
  /**
   * The aggregator rejects the batch for good; the rank counts it as dropped. `batch` is '' when the aggregator could not even read its header: it
   * is then the oldest unanswered batch of this connection, for answers come in the order of the batches.
   */
  z.strictObject({ type: z.literal('refused'), batch: z.string().max(256), reason: z.string().max(1024) }),
  /** Ship all that is recorded so far: the aggregator is about to write the trace. */
  z.strictObject({ type: z.literal('flush') }),
  /**
   * Ship the flight recorder's detail of the steps from `fromStep` to `toStep`, both included; without them, all of it. A rank of another run
   * ignores it.
   */
  z.strictObject({
    type: z.literal('pull'),
    run: z.string().max(limits.runNameCharsMax),
    fromStep: z.number().int().min(0).optional(),
    toStep: z.number().int().min(0).optional(),
  }),
  /**
   * Record the steps from `fromStep` to `toStep`, both included, at full detail, whatever the schedule says: the same steps on all ranks. A rank
   * answers with the metadata `capturedKey` once they are over; a rank that is past some of them sends its flight recorder's detail of those.
   * The aggregator repeats the request until the answer comes, and each time the rank ships all that it has, which shows its progress. A rank
   * of another run ignores it.
   */
  z.strictObject({ type: z.literal('record'), run: z.string().max(limits.runNameCharsMax), fromStep: capturedStep, toStep: capturedStep }),
  /**
   * Record everything for a stretch of time that begins at one moment on all hosts: for ranks whose recorder knows times instead of steps, as
   * PyTorch's Kineto does. An agent answers with the metadata `windowKey`, and again each time that the request is repeated.
   */
  z.strictObject({
    type: z.literal('record_window'),
    run: z.string().max(limits.runNameCharsMax),
    id: windowId,
    /** The beginning on the clock of `host`, the service's, ns. */
    at: nanosText,
    host: z.string().min(1).max(limits.hostCharsMax),
    /** The same moment on the service's wall clock, ms since 1970, for an agent that does not know its clock against `host`. */
    unixMs: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER),
    durationMs: z.number().int().min(1).max(limits.windowMsMax),
    /**
     * By process group, a moment between two of its collectives, ns after `at`, from which all ranks count those without a number of their own. Comes
     * once a rank has answered with `ends`; until then agents hold their detail back, `cutWaitMs` long at most. A job with many groups takes several
     * messages, each with the cuts of some.
     */
    cuts: z
      .array(z.tuple([z.string().max(limits.stringBytesMax), windowNs]))
      .max(limits.windowGroupsMax)
      .optional(),
  }),
  /**
   * Report how far the rank came in its collectives, from sources outside of its training loop: the service suspects a hang. An agent answers with the
   * metadata `collectivesKey`, one for each source that knows. A rank of another run ignores it.
   */
  z.strictObject({ type: z.literal('report_collectives'), run: z.string().max(limits.runNameCharsMax) }),
]);

/** An agent's answer to `record_window` for one rank, as the JSON text of the metadata `windowKey`. */
export const windowAnswerSchema = z.strictObject({
  id: windowId,
  /**
   * `waiting`: the rank has not been asked yet. `asked`: it will record. `read`: its file is there, and `cuts` are awaited. `shipped`: its detail is sent.
   * `missed`: it has none, for the reason in `note`.
   */
  state: z.enum(['waiting', 'asked', 'read', 'shipped', 'missed']),
  /** First and last time of the recording; RankTime, ns. With `read` and `shipped`. */
  from: windowNs.optional(),
  until: windowNs.optional(),
  /** Begin of the recording, ns after the agreed moment; and its length, ns. With `read` and `shipped`. */
  begins: windowNs.optional(),
  length: windowNs.optional(),
  /** With `read`: by process group, the ends of its last collectives without a number, in order, ns after the agreed moment. */
  ends: z
    .array(z.tuple([z.string().max(limits.stringBytesMax), z.array(windowNs).max(limits.windowEndsMax)]))
    .max(limits.windowGroupsMax)
    .optional(),
  note: z.string().max(512).optional(),
});

/** A rank's answer to `record`: the requested steps that it has, as the JSON text of the metadata `capturedKey`. */
export const capturedSchema = z.strictObject({
  /** As in the request. */
  fromStep: capturedStep,
  toStep: capturedStep,
  /** First and last of the requested steps that the rank has at full detail; null: none. */
  firstStep: capturedStep.nullable(),
  lastStep: capturedStep.nullable(),
});

const sequence = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/**
 * The current place of the thread that steps, as the JSON text of the metadata `runningKey`: available for a rank that was killed, or that
 * hangs, whatever it records. Sent when it changes, a few times a second at most.
 */
export const runningSchema = z.strictObject({
  /** The step that runs. */
  step: capturedStep,
  /** The phase of the step, and the start of that phase; RankTime, ns. None: between phases. */
  phase: z.string().max(limits.stringBytesMax).optional(),
  since: z.number().int().optional(),
  /** Between phases: the last phase of this step. */
  after: z.string().max(limits.stringBytesMax).optional(),
  /** The last collective that the thread entered and has not left. */
  collective: z
    .strictObject({
      op: z.string().max(limits.stringBytesMax),
      group: z.string().max(limits.stringBytesMax),
      sequence,
      since: z.number().int(),
    })
    .optional(),
  /** By group, the last collective entered. Sent once the rank has been at one place for a second. */
  entered: z
    .array(z.tuple([z.string().max(limits.stringBytesMax), sequence]))
    .max(limits.runningGroupsMax)
    .optional(),
});

/** By stretch, its first and its last step, in order; null while it goes on: of it, the steps before the last work that has come. */
export const deviceStepsSchema = z.array(z.tuple([capturedStep, capturedStep.nullable()])).max(limits.deviceStretchesMax);

/** How far a rank came in its collectives, as one source outside of its training loop knows it: the JSON text of the metadata `collectivesKey`. */
export const collectiveReportSchema = z.strictObject({
  /** PyTorch's Flight Recorder, which knows single collectives, or NCCL's RAS, which counts those that were launched. */
  source: z.enum(['flight_recorder', 'nccl_ras']),
  groups: z
    .array(
      z.strictObject({
        /** Process group of PyTorch, or communicator of NCCL. */
        group: z.string().max(limits.stringBytesMax),
        /** Number of the last collective that the rank entered; from NCCL, the number of all that it launched. */
        entered: sequence,
        /** The first collective that it entered and has not left, and for how long it had been inside, ms. */
        open: z
          .strictObject({ op: z.string().max(limits.stringBytesMax), sequence, insideMs: z.number().min(0).max(Number.MAX_SAFE_INTEGER) })
          .optional(),
      }),
    )
    .max(limits.runningGroupsMax),
});

/** By group, ranks that belong to it and that no file shows in it: the JSON text of the metadata `absentKey`. */
export const absentSchema = z.array(z.tuple([z.string().max(limits.stringBytesMax), z.array(z.number().int().min(0).max(limits.rankMax))]));

/** State of one rank, as the aggregator sees it now. */
export const rankStatusSchema = z.strictObject({
  rank: z.number().int().min(0).max(limits.rankMax),
  incarnation: z.string(),
  host: z.string(),
  hostName: z.string(),
  /** Batches stored, and batches that are certainly missing (gaps in the sequence). */
  batches: z.number().int().min(0),
  missing: z.number().int().min(0),
  events: z.number().int().min(0),
  /** The last finished step, -1 before the first. */
  step: z.number().int().min(-1),
  dropped: droppedSchema,
  /** Whether the rank sent its last batch. */
  ended: z.boolean(),
  /**
   * `live`: it sends. `stopped`: it has sent nothing for a while, not even heartbeats, and did not end. `lost`: its connection broke before its
   * last batch, as that of a killed process does, and it did not come back. `ended`: it sent its last batch.
   */
  state: z.enum(['live', 'stopped', 'lost', 'ended']),
  /** Time since its last batch came, ms. */
  silentMs: z.number().min(0),
  /** The collective or phase that it is inside of, cut to 64 characters, and for how long already, ms; null: none known. */
  inside: z.string().max(64).nullable(),
  insideMs: z.number().min(0),
});

/** From the aggregator to people: the answer of `GET /status`, repeated by the live feed. */
export const liveMessageSchema = z.strictObject({
  type: z.literal('status'),
  runs: z.array(z.strictObject({ run: z.string(), worldSize: z.number().int().min(1), ranks: z.array(rankStatusSchema) })),
  /** Batches that the aggregator could not read and set aside. */
  quarantined: z.number().int().min(0),
  /** Batches that NATS deleted before this service could read them; an older service does not report them. */
  expired: z.number().int().min(0).default(0),
});

export type RankMessage = z.infer<typeof rankMessageSchema>;
export type ControlMessage = z.infer<typeof controlMessageSchema>;
export type Captured = z.infer<typeof capturedSchema>;
export type WindowAnswer = z.infer<typeof windowAnswerSchema>;
export type Running = z.infer<typeof runningSchema>;
export type DeviceSteps = z.infer<typeof deviceStepsSchema>;
export type CollectiveReport = z.infer<typeof collectiveReportSchema>;
export type RankStatus = z.infer<typeof rankStatusSchema>;
export type LiveMessage = z.infer<typeof liveMessageSchema>;

/** A message as text. */
export const encodeMessage = (message: RankMessage | ControlMessage | LiveMessage): string => JSON.stringify(message);

/** Parses the metadata value of `capturedKey`; undefined when it does not fit the schema. */
export const readCaptured = (text: string): Captured | undefined => readFact(capturedSchema, text);

/** Parses the metadata value of `windowKey`; undefined when it does not fit the schema. */
export const readWindowAnswer = (text: string): WindowAnswer | undefined => readFact(windowAnswerSchema, text);

/** Parses the metadata value of `runningKey`; undefined when it does not fit the schema. */
export const readRunning = (text: string): Running | undefined => readFact(runningSchema, text);

/** Parses the metadata value of `deviceStepsKey`; undefined when it does not fit the schema. */
export const readDeviceSteps = (text: string): DeviceSteps | undefined => readFact(deviceStepsSchema, text);

/** Parses the metadata value of `absentKey`; undefined when it does not fit the schema. */
export const readAbsent = (text: string): z.infer<typeof absentSchema> | undefined => readFact(absentSchema, text);

/** Parses the metadata value of `collectivesKey`; undefined when it does not fit the schema. */
export const readCollectiveReport = (text: string): CollectiveReport | undefined => readFact(collectiveReportSchema, text);

function readFact<T>(schema: z.ZodType<T>, text: string): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Parses the message in `text`; throws ProtocolError `bad_message` or `oversized`. A status may be far larger than the others. */
export function decodeMessage<T>(schema: z.ZodType<T>, text: string): T {
  const isStatus = (schema as z.ZodType) === liveMessageSchema;
  const bytesMax = isStatus ? limits.statusBytesMax : limits.messageBytesMax;
  if (text.length > bytesMax) {
    throw new ProtocolError('oversized', `Cannot decode message: it may have ${bytesMax} bytes, got ${text.length}`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'Cannot decode message: it is not JSON', { cause });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new ProtocolError('bad_message', `Cannot decode message: "${issue?.path.join('.') ?? ''}": ${issue?.message ?? 'not valid'}`);
}
