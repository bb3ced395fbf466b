// Every bound of the configuration file and of alert delivery, with its unit last.

export const deliveryLimits = {
  /** The configuration file; a larger one is refused. */
  configBytesMax: 256 * 1024,
  /** Errors of a configuration that one check reports; the others are left out. */
  configErrorsMax: 20,
  /** Characters of one text in the configuration (an address, a header, a label); a longer one is an error. */
  configTextCharsMax: 2048,
  /** Entries of a map in the configuration (headers, labels), and aliases in its YAML; more of them is an error. */
  configEntriesMax: 64,
  /** Receivers of alerts in a configuration; more of them is an error. */
  outputsMax: 32,
  /** Alerts that wait for one output; above, the oldest is dropped and counted. */
  outputQueueMax: 256,
  /** Incidents for which an output remembers the last state it sent; the one longest without news is forgotten first. */
  outputIncidentsMax: 4096,
  /** Open incidents that an output sends again and again (Alertmanager); further ones are sent once. */
  outputOpenMax: 1024,
  /** A request to a receiver fails without an answer for this long; default of `timeout`. */
  outputRequestMs: 10_000,
  /** Longest `timeout` that a configuration may set; a longer one is an error. */
  outputRequestMsMax: 120_000,
  /** Back-off after the first failure of an output; it doubles up to `outputRetryMsMax`. */
  outputRetryMs: 1000,
  /** Longest back-off between two tries, also where a receiver asks for more (`retry-after`). */
  outputRetryMsMax: 60_000,
  /** An alert older than this is dropped and counted after its next failure; default of `retryFor`. */
  outputRetryForMs: 15 * 60_000,
  /** Longest `retryFor` that a configuration may set; a longer one is an error. */
  outputRetryForMsMax: 24 * 3600_000,
  /** Alerts that one output sends at once; later ones follow at its rate (`perMinute`). */
  outputBurst: 10,
  /** Alerts that an output sends a minute (default of `perMinute`); the others wait. */
  outputPerMinute: 30,
  /** Highest `perMinute` that a configuration may set (a higher one is an error), and the default of the log and of Alertmanager. */
  outputPerMinuteMax: 6000,
  /** An alert waits at most this long for the trace of its steps, then it goes out without; default of `hold`. */
  outputHoldMs: 20_000,
  /** Longest `hold` that a configuration may set; a longer one is an error. */
  outputHoldMsMax: 600_000,
  /** Bytes of a receiver's error answer that are read; the rest is not waited for. */
  outputAnswerBytesMax: 1024,
  /** Characters of a receiver's error answer that a notice quotes; the rest is cut off. */
  outputReasonCharsMax: 300,
  /** A file that holds an address or a token; a larger one is refused. */
  outputSecretBytesMax: 16 * 1024,
  /** Time to deliver waiting alerts when the service ends; then the rest is dropped and counted. */
  outputCloseMs: 5000,
  /** The same trouble of one output is logged at most once within this time. */
  outputNoticeMs: 10_000,
  /** Interval at which Alertmanager gets all open alerts again; default of `resend`. */
  alertmanagerResendMs: 60_000,
  /** Longest `resend` that a configuration may set; a longer one is an error. */
  alertmanagerResendMsMax: 600_000,
  /** Resends that may fail before Alertmanager takes an incident for over by itself. */
  alertmanagerMissedMax: 4,
} as const;
