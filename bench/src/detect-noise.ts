// Every kind of noise of step times (noisy-steps.ts): false alerts where nothing changes, and which changes are found in each kind, and how soon.
//
// A false alert is any regression or drift in a series without a planted one: there is no other truth to compare with. Only levels that jump and
// stay (telegraph) are counted in short runs like those of recorded runs, without alerts that a real change of the level precedes. The seeds differ
// from those on which the detector's constants were chosen.

import { detectorOptionsFor, type Sensitivity, sensitivities } from '@ranktrace/trace/detect';
import { noisySteps, type StepNoise, stepNoises } from '@ranktrace/trace/simulate';
import { claimsOn, type Found, falseRate, findPlanted, type Method, ours, shareWithin } from './detect-methods.ts';
import { type Figure, figure, median } from './figure.ts';
import type { StepSeries } from './step-series.ts';

const firstSeed = 300_000;
const runs = 40;
const runSteps = 5000;
const longRuns = 2;
const longRunSteps = 100_000;
/** Planted changes: so many series of 600 steps for each size, slower from a step of the fourth hundred on. */
const plantedRuns = 200;
const plantedSteps = 600;
const sizes = [0.03, 0.05, 0.1, 1];

export function noiseFigures(): Figure[] {
  const usual = ours('ours');
  return [
    ...stepNoises.flatMap((kind) => [...falseFigures(usual, kind), ...plantedFigures(usual, kind)]),
    ...sensitivities.map(sensitivityFigure),
  ];
}

const seriesOf = (kind: StepNoise, count: number, steps: number): StepSeries[] =>
  Array.from({ length: count }, (_, index) => asSeries(noisySteps({ kind, seed: firstSeed + index, steps })));

const asSeries = (times: Float64Array): StepSeries => ({ times, isEval: new Array<boolean>(times.length).fill(false) });

const perSteps = (claims: number, steps: number): number => claims / (steps / 100_000);

function falseFigures(method: Method, kind: StepNoise): Figure[] {
  const about = [
    [runs, runSteps],
    [longRuns, longRunSteps],
  ] as const;
  return about.map(([count, steps]) => {
    const series = seriesOf(kind, count, steps);
    const jumps = kind === 'telegraph' && steps === runSteps;
    return figure({
      name: `${kind} noise, ${count} runs of ${steps} steps: false alerts${jumps ? ' without a real change of 1.2 % before them' : ''}`,
      value: jumps ? falseRate(method, series) : perSteps(claimsOn(method, series), count * steps),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 1, of: 'value' },
    });
  });
}

function plantedFigures(method: Method, kind: StepNoise): Figure[] {
  return sizes.flatMap((size) => {
    const found: Found = findPlanted(
      method,
      Array.from({ length: plantedRuns }, (_, index) => {
        const onset = 300 + ((37 * index) % 101);
        const factorAt = (step: number): number => (step < onset ? 1 : 1 + size);
        return { onset, ...asSeries(noisySteps({ kind, seed: 2 * firstSeed + index, steps: plantedSteps, factorAt })) };
      }),
    );
    const label = `${kind} noise: +${Math.round(100 * size)} %`;
    const isGated = kind === 'wholeMs' && size === 0.03;
    return [
      figure({ name: `${label} found`, value: shareWithin(found), unit: '%' }),
      figure({
        name: `${label} found within 40 steps`,
        value: shareWithin(found, 40),
        unit: '%',
        ...(isGated ? { target: { at: 'least', value: 98, of: 'value' } } : {}),
      }),
      ...(found.delays.length === 0 ? [] : [figure({ name: `${label}, median delay`, value: median(found.delays), unit: 'steps' })]),
    ];
  });
}

/** All kinds together. */
function sensitivityFigure(sensitivity: Sensitivity): Figure {
  const method = ours(`ours, ${sensitivity}`, detectorOptionsFor({ sensitivity }));
  const claims = stepNoises.reduce((sum, kind) => sum + claimsOn(method, seriesOf(kind, runs / 2, runSteps)), 0);
  return figure({
    name: `all kinds of noise, sensitivity ${sensitivity}: false alerts`,
    value: perSteps(claims, (stepNoises.length * runs * runSteps) / 2),
    unit: 'per 100 k steps',
  });
}
