/** Once for all tests, before the first: compiles the programs that they start. */
import { compileFixtures } from "../../scripts/compile-fixtures.mjs";

export function setup(): () => void {
  const { folder, remove } = compileFixtures();
  process.env.DBQ_COMPILED = folder;
  return remove;
}
