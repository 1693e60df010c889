/**
 * False for a day such as `2027-02-30`: JavaScript takes it for 2 March. Looks only at the day with which the text begins,
 * and is true for other texts.
 */
export function dayExists(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? [];
  if (day === undefined) return true;
  const date = new Date(`${year}-${month}-01T00:00:00Z`);
  date.setUTCDate(Number(day));
  return date.getUTCMonth() + 1 === Number(month);
}
