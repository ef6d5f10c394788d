"""Commands that reproduce published figures; none of them is part of the wheel."""
