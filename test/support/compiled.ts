/** Global setup: compiles the programs that tests start, once before the first test. */
import { compileFixtures } from "../../scripts/compile-fixtures.mjs";

export function setup(): () => void {
  const { folder, remove } = compileFixtures();
  process.env.DBQ_COMPILED = folder;
  return remove;
}
