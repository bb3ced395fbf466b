// Replaces a method by an own property of one object, and undoes that.
//
// When another tool has overridden the same method meanwhile, its override stays, and with it a call to ours, which must pass everything
// through from then on: the caller's replacement checks whether it is still wanted.

/** Sets `target[name]` to the result of `replace` for the present value. The returned function undoes that, unless it was overridden since. */
export function override<T extends object, K extends keyof T>(target: T, name: K, replace: (original: T[K]) => T[K]): () => void {
  const before = Object.getOwnPropertyDescriptor(target, name);
  const replacement = replace(target[name]);
  Object.defineProperty(target, name, { value: replacement, configurable: true, writable: true, enumerable: before?.enumerable ?? false });
  return () => {
    if (Object.getOwnPropertyDescriptor(target, name)?.value !== replacement) return;
    if (before === undefined) delete target[name];
    else Object.defineProperty(target, name, before);
  };
}
