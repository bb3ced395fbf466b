// Shows the progress of a question, and the reason when it has no answer.

import type { JSX } from 'preact';
import { formatPercent } from '../controls/format.ts';
import type { Answer } from './use-answer.ts';
import './answer-state.css';

/** Nothing once the answer is there. */
export function AnswerState({ answer, what }: { readonly answer: Answer<unknown>; readonly what: string }): JSX.Element | null {
  const { progress, problem, stop, again } = answer;
  if (progress !== undefined)
    return (
      <p class="answer-state" role="status">
        {what} <progress value={progress} max={1} aria-label={what} /> {formatPercent(progress)}
        <button type="button" onClick={stop}>
          Stop
        </button>
      </p>
    );
  if (problem === undefined) return null;
  return (
    <p class="answer-state" role="status">
      {problem}
      <button type="button" onClick={again}>
        Try again
      </button>
    </p>
  );
}
