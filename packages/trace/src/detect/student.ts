// Quantiles of Student's t: how far apart two means of few values must be to rule out chance.

/** A two-sided level of significance, with its quantile of the normal distribution. */
export interface Significance {
  readonly share: number;
  readonly normal: number;
}

/** A part of the variance of a difference, and the degrees of freedom with which it is known. */
export interface VariancePart {
  readonly variance: number;
  readonly degrees: number;
}

/** The error of a difference and its degrees of freedom, as Welch and Satterthwaite have them; a part that is known for sure does not contribute. */
export function errorOf(parts: readonly VariancePart[]): { readonly error: number; readonly degrees: number } {
  const variance = parts.reduce((sum, part) => sum + part.variance, 0);
  const rest = parts.reduce((sum, part) => sum + part.variance ** 2 / part.degrees, 0);
  return { error: Math.sqrt(variance), degrees: rest === 0 ? Number.POSITIVE_INFINITY : variance ** 2 / rest };
}

/**
 * The t that pure chance exceeds, on either side, with probability `share`; `degrees` of freedom > 0, where infinitely many give the normal
 * quantile. Source: G. W. Hill, Algorithm 396, Communications of the ACM 13 (1970): accurate to about six digits.
 *
 * @example studentQuantile({ share: 0.05, normal: 1.959964 }, 4) // 2.776
 */
export function studentQuantile({ share, normal }: Significance, degrees: number): number {
  if (degrees === Number.POSITIVE_INFINITY) return normal;
  if (degrees <= 1) return 1 / Math.tan((share * Math.PI) / 2);
  if (degrees === 2) return Math.sqrt(2 / (share * (2 - share)) - 2);
  const a = 1 / (degrees - 0.5);
  const b = 48 / a ** 2;
  let c = (((20_700 * a) / b - 98) * a - 16) * a + 96.36;
  const d = ((94.5 / (b + c) - 3) / b + 1) * Math.sqrt((a * Math.PI) / 2) * degrees;
  let y = (d * share) ** (2 / degrees);
  if (y > 0.05 + a) {
    const x = -normal;
    y = x ** 2;
    if (degrees < 5) c += 0.3 * (degrees - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
    y = Math.expm1(a * y ** 2);
  } else {
    const tail = 1 / (((degrees + 6) / (degrees * y) - 0.089 * d - 0.822) * (degrees + 2) * 3) + 0.5 / (degrees + 4);
    y = ((tail * y - 1) * (degrees + 1)) / (degrees + 2) + 1 / y;
  }
  return Math.sqrt(degrees * y);
}
