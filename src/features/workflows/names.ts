/** The names of steps and events. */
import { label, type Reader, wrong } from "../../base/options/validators.ts";

/** As a `label`, without a space at its end: MariaDB takes names for equal that differ by such spaces. */
export const stepName: Reader<string> = (value, name) => {
  const read = label(value, name);
  if (/\s$/.test(read)) throw wrong(name, "no space at the end", value);
  return read;
};
