import { expect, test } from 'vitest';
import { Turns } from './turns.ts';

test('pages take turns, however much one of them asks for', async () => {
  const turns = new Turns();
  const order: string[] = [];
  const work = async (page: object, name: string): Promise<void> => {
    await turns.turn(page);
    order.push(name);
  };
  const [a, b] = [{}, {}];
  await Promise.all([work(a, 'a1'), work(a, 'a2'), work(a, 'a3'), work(a, 'a4'), work(b, 'b1'), work(b, 'b2')]);
  expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
});

test('between two turns everything else has its own', async () => {
  const turns = new Turns();
  const page = {};
  let rounds = 0;
  let isOver = false;
  const round = (): void => {
    rounds++;
    if (!isOver) setImmediate(round);
  };
  setImmediate(round);
  const seen: number[] = [];
  const work = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn++) {
      await turns.turn(page);
      seen.push(rounds);
    }
  };
  await Promise.all([work(), work()]);
  isOver = true;
  expect(seen).toHaveLength(10);
  expect(new Set(seen).size).toBe(10);
});
