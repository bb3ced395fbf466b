// Every bound of the configuration file and of what carries alerts out, with its unit last.

export const deliveryLimits = {
  /** The configuration file. */
  configBytesMax: 256 * 1024,
  /** Errors of a configuration that are told at once. */
  configErrorsMax: 20,
  /** One text in it: an address, a header, a label. */
  configTextCharsMax: 2048,
  /** Entries of a map in the configuration: headers, labels. */
  configEntriesMax: 64,
  /** Who can be told of alerts. */
  outputsMax: 32,
  /** Alerts that wait for one output; above, the oldest is dropped and counted. */
  outputQueueMax: 256,
  /** Incidents of which an output knows what it was told; the one longest without news is forgotten first. */
  outputIncidentsMax: 4096,
  /** Open incidents that a receiver is told again and again; those beyond are told once. */
  outputOpenMax: 1024,
  /** For one request to be answered, unless the configuration says otherwise. */
  outputRequestMs: 10_000,
  /** The longest time that a configuration may give it. */
  outputRequestMsMax: 120_000,
  /** From the first failure to the next try, doubled each time up to `outputRetryMsMax`. */
  outputRetryMs: 1000,
  /** Between two tries, and what a receiver may ask for. */
  outputRetryMsMax: 60_000,
  /** An alert that is older is given up after its next failure, unless the configuration says otherwise. */
  outputRetryForMs: 15 * 60_000,
  /** The longest such time. */
  outputRetryForMsMax: 24 * 3600_000,
  /** Alerts that one output sends at once; the others follow at its rate. */
  outputBurst: 10,
  /** Alerts that an output sends a minute, unless the configuration says otherwise. */
  outputPerMinute: 30,
  /** The highest such rate; that of the log and of Alertmanager. */
  outputPerMinuteMax: 6000,
  /** An alert waits so long for the trace of its steps, unless the configuration says otherwise. */
  outputHoldMs: 20_000,
  /** The longest such time. */
  outputHoldMsMax: 600_000,
  /** What is read of a receiver's answer that is an error. */
  outputAnswerBytesMax: 1024,
  /** What of that answer reaches a notice. */
  outputReasonCharsMax: 300,
  /** A file that holds an address or a token. */
  outputSecretBytesMax: 16 * 1024,
  /** For what waits to be delivered at the end. */
  outputCloseMs: 5000,
  /** The same trouble of one output is not told again within this time. */
  outputNoticeMs: 10_000,
  /** Between two tellings of what is open to Alertmanager, unless the configuration says otherwise. */
  alertmanagerResendMs: 60_000,
  /** The longest such time. */
  alertmanagerResendMsMax: 600_000,
  /** Resends that may fail before Alertmanager takes an incident for over by itself. */
  alertmanagerMissedMax: 4,
} as const;
