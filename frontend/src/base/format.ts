// How numbers look everywhere: bytes in GiB, durations as '2 h 05 min', values as short as they stay exact enough.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count: number): string {
  if (!Number.isFinite(count)) return "–";
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  const minutes = Math.floor(total / 60);
  if (minutes < 60) return `${minutes} min ${String(total % 60).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** A metric's value: five significant digits, exponents only where they help; NaN and infinities by name. */
export function value(number: number | null | undefined, digits = 5): string {
  if (number === null || number === undefined) return "–";
  if (Number.isNaN(number)) return "NaN";
  if (number === Infinity) return "∞";
  if (number === -Infinity) return "−∞";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e6 || size < 1e-4) return number.toExponential(digits - 2).replace("e+", "e");
  if (Number.isInteger(number)) return String(number);
  return String(Number(number.toPrecision(digits)));
}

export function clock(secondsSinceEpoch: number, zone?: string): string {
  return new Date(secondsSinceEpoch * 1000).toLocaleTimeString(document.documentElement.lang, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZone: zone,
  });
}
