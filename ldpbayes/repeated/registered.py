"""What the room brings: protocols whose report is a history, histories from long data, and what users have spent."""

PROTOCOLS = {
    "d_bit_flip": "ldpbayes.repeated.d_bit_flip",
    "loloha": "ldpbayes.repeated.loloha",
    "memoized_grr": "ldpbayes.repeated.memoized_grr",
    "memoized_rappor": "ldpbayes.repeated.memoized_rappor",
    "memoized_unary": "ldpbayes.repeated.memoized_unary",
    "repeated": "ldpbayes.repeated.fresh",
}
USERS = {"histories": "repeated.fresh.histories_of", "read": "repeated.users.read_users"}
FACTS = {"spent": "repeated.spending.spent_in"}
TABLES = {"spent": "repeated.spending.of_spending"}
