"""Text to draw inputs from: sentences of common English words."""

from __future__ import annotations

import numpy as np


def sentences(random: np.random.RandomState, words: int) -> str:
    """Sentences of 3 to 20 words, each followed by a space, of `words` words or a few more."""
    sentences: list[str] = []
    drawn = 0
    while drawn < words:
        count = int(random.randint(3, 21))
        sentences.append(_sentence(random, count))
        drawn += count
    return "".join(sentences)


def question(random: np.random.RandomState, words: int) -> str:
    """One sentence that ends in a question mark."""
    return _sentence(random, words).rstrip(".?! ") + "?"


def _sentence(random: np.random.RandomState, count: int) -> str:
    chosen = [WORDS[index] for index in random.randint(0, len(WORDS), count)]
    if count > 8:
        chosen[count // 2] += ","
    return " ".join(chosen).capitalize() + ".?!"[random.randint(0, 3)] + " "


_VOCABULARY = """
a about above across after again against all almost alone along already also although always among an and animal another
answer any apple are area arm around arrive as ask at autumn away baby back bad bag ball bank be beach beautiful became
because bed been before began behind believe bell below beside best better between big bird black blue board boat body
book both bottom box boy branch bread break bridge bright bring brother brought brown build burn busy but buy by call
came can captain car card care careful carry castle cat catch cause centre certain chair chance change check child
children choose circle city clean clear climb clock close cloud coast coffee cold colour come common complete cook cool
copper corner could count country course cover cross crowd cry cup cut dance dark daughter day dear decide deep did
different dinner direction do doctor does dog done door double doubt down dream dress drink drive dry during each early
earth east easy eat edge egg eight either else empty end engine enjoy enough evening ever every example eye face fact
fall family famous far farm farmer fast father feel few field fight figure fill find fine finger finish fire first fish
five floor flower fly follow food foot for forest forget form forward found four free fresh friend from front fruit full
game garden gate gave general gentle get girl give glad glass go gold gone good grass great green grey ground group grow
guess had hair half hall hand happen happy hard has hat have he head hear heart heavy help her here high hill him his
history hold hole home hope horse hot hour house how hundred hungry hurry ice idea if important in inside instead into
iron is island it its journey jump just keep kept key kind king kitchen knew know lake land language large last late
laugh lead leaf learn leave left leg less let letter library life light like line listen little live long look lost loud
love low lunch machine made make man many map mark market matter may me mean measure meet middle might mile milk mind
minute miss money month moon more morning most mother mountain mouth move much museum music must my name narrow near
need never new next night nine no noise north nose not nothing now number ocean of off office often old on once one only
open or orange other our out outside over own page paint paper part party pass past pay peace pencil people perhaps
person picture piece place plain plan plant play please point poor possible power present pretty problem pull push put
quarter question quick quiet quite rain ran reach read ready real reason red remember rest result rich ride right ring
rise river road rock roof room round rule run sad safe said sail salt same sand saw say school sea season seat second
secret see seem send sentence serve set seven several shade shall shape she ship shoe shop short should show side silence
silver simple since sing sister sit six skin sky sleep slow small smell smile snow so soft some son song soon sound
south space speak spring square stand star start station stay still stone stop store storm story straight strange
stream street strong study such sudden sugar summer sun supper sure surprise sweet swim table take talk tall teach
teacher tell ten than that the their them then there these they thing think third this those though thought thousand
three through throw time tired to today together told tomorrow too took top touch toward tower town train travel tree
trip trouble true try turn twelve twenty two uncle under until up upon us use usual valley very village visit voice
wait walk wall want war warm was wash watch water wave way we weather week weight well went were west wet what wheel
when where which while white who whole why wide wild will wind window wine winter wire wish with without woman wonder
wood word work world would write wrong yard year yellow yes yesterday yet you young your
"""
WORDS = tuple(_VOCABULARY.split())
