// Placeholder until trace has it.
import type { Recording } from './recording.ts';
export function writeMemoryTimeline(_recording: Recording, _path: string, _device: string | undefined): void {}
