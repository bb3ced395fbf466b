// Sizes of the elements of tensors, by the names that torch gives their types (c10::toString of a ScalarType).

const bytes: ReadonlyMap<string, number> = new Map([
  ...(['Byte', 'Char', 'Bool'] as const).map((name) => [name, 1] as const),
  ...(['Short', 'Half', 'BFloat16', 'UInt16'] as const).map((name) => [name, 2] as const),
  ...(['Int', 'Float', 'ComplexHalf', 'UInt32'] as const).map((name) => [name, 4] as const),
  ...(['Long', 'Double', 'ComplexFloat', 'UInt64'] as const).map((name) => [name, 8] as const),
  ['ComplexDouble', 16] as const,
]);

/** Bytes of one element; undefined for a type that is not known. There are several 8-bit floats, such as `Float8_e4m3fn`. */
export const elementBytes = (type: string): number | undefined => bytes.get(type) ?? (type.startsWith('Float8_') ? 1 : undefined);
